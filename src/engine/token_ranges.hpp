// The ids that may be sampled, as a few ascending ranges.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "lily/text.hpp"

namespace lily::engine {

struct TokenRange {
  TokenId begin = 0;
  TokenId end = 0;  // one past the last
};

// A model has more rows in its head than the tokenizer has tokens; rows without a token are never sampled.
class TokenRanges {
 public:
  // The ids in [0, limit) for which `allowed` holds.
  TokenRanges(TokenId limit, const std::function<bool(TokenId)>& allowed);

  // The same without `ids`.
  TokenRanges without(std::span<const TokenId> ids) const;

  bool contains(TokenId id) const noexcept;
  int count() const noexcept { return count_; }
  auto begin() const noexcept { return ranges_.begin(); }
  auto end() const noexcept { return ranges_.end(); }

 private:
  std::vector<TokenRange> ranges_;
  int count_ = 0;
};

}  // namespace lily::engine
