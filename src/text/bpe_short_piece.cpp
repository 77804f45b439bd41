// BPE on a short piece: look for the best merge, do it, again.
#include <algorithm>
#include <array>

#include "text/bpe_encode.hpp"

namespace lily::text {
namespace {

// A rank with its place below it: the least of these is the lowest rank's leftmost place.
using RankAndPlace = std::int32_t;
constexpr unsigned kPlaceBits = 7;
constexpr RankAndPlace kNone = std::numeric_limits<RankAndPlace>::max();
static_assert(kShortPiece <= std::size_t{1} << kPlaceBits);
static_assert(BpeMerges::kMaxMerges << kPlaceBits <= kNone);

RankAndPlace at_place(MergeRank rank, std::size_t place) {
  return rank == kNoMerge ? kNone : static_cast<RankAndPlace>((rank << kPlaceBits) | place);
}

}  // namespace

std::size_t encode_short_piece(const BpeMerges& merges, std::string_view piece, TokenId* ids) {
  const std::size_t size = piece.size();
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(piece[i]); };
  // Token i begins at byte i. Of a merged pair the left place lives on; the right one keeps kNone for ever.
  std::array<TokenId, kShortPiece> tokens;
  std::array<std::uint8_t, kShortPiece + 1> next;
  std::array<std::uint8_t, kShortPiece + 1> previous;
  std::array<RankAndPlace, kShortPiece> ranks;
  for (std::size_t i = 0; i < size; ++i) {
    tokens[i] = merges.byte_id(byte(i));
    next[i] = static_cast<std::uint8_t>(i + 1);
    previous[i] = static_cast<std::uint8_t>(i - 1);
    ranks[i] = i + 1 < size ? at_place(merges.byte_pair_rank(byte(i), byte(i + 1)), i) : kNone;
  }

  while (true) {
    RankAndPlace best = kNone;
    for (std::size_t i = 0; i < size; ++i) best = std::min(best, ranks[i]);
    if (best == kNone) break;
    const std::size_t left = static_cast<std::size_t>(best) & ((std::size_t{1} << kPlaceBits) - 1);
    const std::size_t right = next[left];
    const std::size_t behind = next[right];
    const TokenId merged = merges.result(static_cast<MergeRank>(best) >> kPlaceBits);
    tokens[left] = merged;
    next[left] = static_cast<std::uint8_t>(behind);
    previous[behind] = static_cast<std::uint8_t>(left);
    ranks[right] = kNone;
    ranks[left] = behind < size ? at_place(merges.rank(merged, tokens[behind]), left) : kNone;
    if (left > 0) {
      const std::size_t before = previous[left];
      ranks[before] = at_place(merges.rank(tokens[before], merged), before);
    }
  }
  std::size_t count = 0;
  for (std::size_t i = 0; i < size; i = next[i]) ids[count++] = tokens[i];
  return count;
}

}  // namespace lily::text
