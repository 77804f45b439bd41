// The two ways to run BPE on one piece of text. Both give the same tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <string_view>
#include <vector>

#include "text/bpe_merges.hpp"

namespace lily::text {

// Quadratic, but with hardly any bookkeeping: the faster one for up to kShortPiece bytes.
inline constexpr std::size_t kShortPiece = 96;

// Writes the tokens of a piece of 1 to kShortPiece bytes; returns their number. `ids` has room for one per
// byte.
std::size_t encode_short_piece(const BpeMerges& merges, std::string_view piece, TokenId* ids);

// n log n in the worst case, linear in practice. Keeps its working memory for the next piece.
class LongPieceEncoder {
 public:
  // Like encode_short_piece, for a piece of 1 byte to 2 GiB.
  std::size_t encode(const BpeMerges& merges, std::string_view piece, TokenId* ids);

 private:
  // The places where pairs of one rank begin. New ones mostly come from left to right.
  struct Bucket {
    std::vector<std::uint32_t> places;
    std::size_t done = 0;
    bool sorted = true;
  };
  static constexpr std::uint32_t kNoBucket = 0xFFFFFFFFU;

  void add(MergeRank rank, std::size_t place);
  void work_off(const BpeMerges& merges, MergeRank rank);
  void merge_at(const BpeMerges& merges, MergeRank rank, std::size_t place);
  void release(MergeRank rank);

  std::vector<std::uint32_t> cells_;
  std::vector<std::uint32_t> bucket_of_rank_;
  std::vector<Bucket> buckets_;
  std::vector<std::uint32_t> free_buckets_;
  std::priority_queue<MergeRank, std::vector<MergeRank>, std::greater<>>
      waiting_;  // ranks that have a bucket
};

}  // namespace lily::text
