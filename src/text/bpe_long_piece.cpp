// BPE on a long piece: the places of each rank wait in a bucket, the lowest rank's bucket is worked off
// first.
#include <algorithm>

#include "text/bpe_encode.hpp"

namespace lily::text {
namespace {

// The piece is an array of cells, one per byte. The first and the last cell of a token hold its id, so a
// token's neighbours are found from its borders and the lengths of tokens, without links. The first cell has
// this bit.
constexpr std::uint32_t kStart = 0x80000000U;

// The working memory of longer pieces is given back.
constexpr std::size_t kKeptPieceBytes = 4096;

TokenId id_of(std::uint32_t cell) { return static_cast<TokenId>(cell & ~kStart); }

}  // namespace

std::size_t LongPieceEncoder::encode(const BpeMerges& merges, std::string_view piece, TokenId* ids) {
  bucket_of_rank_.resize(merges.count(), kNoBucket);
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(piece[i]); };
  cells_.resize(piece.size());
  for (std::size_t i = 0; i < piece.size(); ++i) {
    cells_[i] = static_cast<std::uint32_t>(merges.byte_id(byte(i))) | kStart;
    if (i + 1 < piece.size()) add(merges.byte_pair_rank(byte(i), byte(i + 1)), i);
  }
  while (!waiting_.empty()) work_off(merges, waiting_.top());

  std::size_t count = 0;
  for (std::size_t i = 0; i < piece.size(); ++count) {
    ids[count] = id_of(cells_[i]);
    i += merges.length(ids[count]);
  }
  if (piece.size() > kKeptPieceBytes) {
    std::vector<std::uint32_t>().swap(cells_);
    std::vector<Bucket>().swap(buckets_);
    free_buckets_.clear();
  }
  return count;
}

void LongPieceEncoder::add(MergeRank rank, std::size_t place) {
  if (rank == kNoMerge) return;
  std::uint32_t& index = bucket_of_rank_[rank];
  if (index == kNoBucket) {
    if (free_buckets_.empty()) {
      free_buckets_.push_back(static_cast<std::uint32_t>(buckets_.size()));
      buckets_.emplace_back();
    }
    index = free_buckets_.back();
    free_buckets_.pop_back();
    waiting_.push(rank);
  }
  Bucket& bucket = buckets_[index];
  if (!bucket.places.empty() && bucket.places.back() > place) bucket.sorted = false;
  bucket.places.push_back(static_cast<std::uint32_t>(place));
}

// Merges the places of `rank`, the lowest waiting, until all are done or a merge opened a lower rank.
void LongPieceEncoder::work_off(const BpeMerges& merges, MergeRank rank) {
  const std::uint32_t index = bucket_of_rank_[rank];
  if (!buckets_[index].sorted) {
    std::vector<std::uint32_t>& places = buckets_[index].places;
    std::sort(places.begin() + static_cast<std::ptrdiff_t>(buckets_[index].done), places.end());
    buckets_[index].sorted = true;
  }
  // A merge cannot add places of its own rank: what it makes is longer than either half of this rank's pair.
  while (buckets_[index].done < buckets_[index].places.size()) {
    merge_at(merges, rank, buckets_[index].places[buckets_[index].done++]);
    if (waiting_.top() != rank) return;
  }
  release(rank);
}

void LongPieceEncoder::merge_at(const BpeMerges& merges, MergeRank rank, std::size_t place) {
  // Places become stale when another merge takes one of their tokens.
  if ((cells_[place] & kStart) == 0) return;
  const TokenId left = id_of(cells_[place]);
  const std::size_t middle = place + merges.length(left);
  if (middle == cells_.size()) return;
  const TokenId right = id_of(cells_[middle]);
  if (merges.rank(left, right) != rank) return;

  const TokenId merged = merges.result(rank);
  const std::size_t end = middle + merges.length(right);
  cells_[middle] &= ~kStart;
  cells_[end - 1] = static_cast<std::uint32_t>(merged);
  cells_[place] = static_cast<std::uint32_t>(merged) | kStart;
  if (place > 0) {
    const TokenId before = id_of(cells_[place - 1]);
    add(merges.rank(before, merged), place - merges.length(before));
  }
  if (end < cells_.size()) add(merges.rank(merged, id_of(cells_[end])), place);
}

// Called when `rank` is the lowest waiting and its bucket is worked off.
void LongPieceEncoder::release(MergeRank rank) {
  waiting_.pop();
  const std::uint32_t index = bucket_of_rank_[rank];
  Bucket& bucket = buckets_[index];
  bucket.places.clear();
  bucket.done = 0;
  bucket.sorted = true;
  free_buckets_.push_back(index);
  bucket_of_rank_[rank] = kNoBucket;
}

}  // namespace lily::text
