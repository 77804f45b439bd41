// BPE on a short piece: look for the best merge, do it, again.
#include <cstring>

#include "text/bpe_encode.hpp"

namespace lily::text {

std::size_t encode_short_piece(const BpeMerges& merges, std::string_view piece, TokenId* ids) {
  std::size_t count = piece.size();
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(piece[i]); };
  // ranks[i] is the rank of the pair that begins at token i; the last token has none.
  std::array<MergeRank, kShortPiece> ranks;
  for (std::size_t i = 0; i + 1 < count; ++i) {
    ids[i] = merges.byte_id(byte(i));
    ranks[i] = merges.byte_pair_rank(byte(i), byte(i + 1));
  }
  ids[count - 1] = merges.byte_id(byte(count - 1));

  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (ranks[i] < ranks[best]) best = i;
    }
    if (ranks[best] == kNoMerge) break;
    const TokenId merged = merges.result(ranks[best]);
    ids[best] = merged;
    --count;
    const std::size_t moved = count - best - 1;
    std::memmove(ids + best + 1, ids + best + 2, moved * sizeof(TokenId));
    std::memmove(ranks.data() + best, ranks.data() + best + 1, moved * sizeof(MergeRank));
    if (moved > 0) ranks[best] = merges.rank(merged, ids[best + 1]);
    if (best > 0) ranks[best - 1] = merges.rank(ids[best - 1], merged);
  }
  return count;
}

}  // namespace lily::text
