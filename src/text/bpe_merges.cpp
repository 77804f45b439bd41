// The merges of a BPE vocabulary.
#include "text/bpe_merges.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace lily::text {

BpeMerges::BpeMerges(const std::array<TokenId, 256>& byte_ids, const std::vector<Merge>& merges,
                     std::vector<std::uint32_t> lengths)
    : byte_ids_(byte_ids), byte_pair_ranks_(std::size_t{256} * 256, kNoMerge), lengths_(std::move(lengths)) {
  const std::size_t slots = std::bit_ceil(std::max<std::size_t>(merges.size(), 8) * 2);
  slots_.assign(slots, kEmptySlot);
  filter_.assign(slots * 4 / 64, 0);
  slot_mask_ = slots - 1;
  home_shift_ = 64U - static_cast<unsigned>(std::countr_zero(slots));
  results_.reserve(merges.size());
  for (const Merge& merge : merges) {
    insert(pair_of(merge.left, merge.right), static_cast<MergeRank>(results_.size()));
    results_.push_back(merge.result);
  }
  for (std::size_t left = 0; left < 256; ++left) {
    for (std::size_t right = 0; right < 256; ++right) {
      byte_pair_ranks_[left * 256 + right] = rank(byte_ids_[left], byte_ids_[right]);
    }
  }
}

void BpeMerges::insert(std::uint64_t pair, MergeRank rank) noexcept {
  const std::uint64_t hash = hash_of(pair);
  const std::uint64_t bit = hash >> (home_shift_ - 2);
  filter_[bit / 64] |= std::uint64_t{1} << (bit % 64);
  std::size_t i = home_of(hash);
  while (slots_[i] != kEmptySlot && slots_[i] >> kRankBits != pair) i = (i + 1) & slot_mask_;
  slots_[i] = (pair << kRankBits) | rank;
}

}  // namespace lily::text
