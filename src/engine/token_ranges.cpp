// The ids that may be sampled.
#include "engine/token_ranges.hpp"

#include <algorithm>

namespace lily::engine {

TokenRanges::TokenRanges(TokenId limit, const std::function<bool(TokenId)>& allowed) {
  for (TokenId id = 0; id < limit; ++id) {
    if (!allowed(id)) continue;
    if (ranges_.empty() || ranges_.back().end != id) ranges_.push_back({id, id});
    ranges_.back().end = id + 1;
    ++count_;
  }
}

TokenRanges TokenRanges::without(std::span<const TokenId> ids) const {
  const TokenId limit = ranges_.empty() ? 0 : ranges_.back().end;
  return {limit,
          [&](TokenId id) { return contains(id) && std::find(ids.begin(), ids.end(), id) == ids.end(); }};
}

bool TokenRanges::contains(TokenId id) const noexcept {
  const auto after =
      std::upper_bound(ranges_.begin(), ranges_.end(), id,
                       [](TokenId value, const TokenRange& range) { return value < range.begin; });
  return after != ranges_.begin() && id < std::prev(after)->end;
}

}  // namespace lily::engine
