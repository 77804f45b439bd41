// The merges of a BPE vocabulary: which pairs of tokens join, in which order, to which token.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "lily/text.hpp"

namespace lily::text {

// A merge's place in the file's list; the lowest of a text's merges is done first.
using MergeRank = std::uint32_t;
inline constexpr MergeRank kNoMerge = std::numeric_limits<MergeRank>::max();

struct Merge {
  TokenId left = 0;
  TokenId right = 0;
  TokenId result = 0;
};

class BpeMerges {
 public:
  // Ids and ranks share the 64 bits of a table slot.
  static constexpr std::size_t kMaxIds = (std::size_t{1} << 21) - 1;
  static constexpr std::size_t kMaxMerges = std::size_t{1} << 22;

  // `byte_ids` are the tokens of the 256 bytes; `merges` stand in order of rank; `lengths` are the bytes of
  // each token. Of two merges of the same pair the later counts, as in the reference implementation. Ids are
  // below kMaxIds, merges fewer than kMaxMerges.
  BpeMerges(const std::array<TokenId, 256>& byte_ids, const std::vector<Merge>& merges,
            std::vector<std::uint32_t> lengths);

  TokenId byte_id(unsigned char byte) const noexcept { return byte_ids_[byte]; }
  MergeRank byte_pair_rank(unsigned char left, unsigned char right) const noexcept {
    return byte_pair_ranks_[left * std::size_t{256} + right];
  }
  MergeRank rank(TokenId left, TokenId right) const noexcept {
    const std::uint64_t pair = pair_of(left, right);
    const std::uint64_t hash = hash_of(pair);
    if (!may_join(hash)) return kNoMerge;
    for (std::size_t i = home_of(hash);; i = (i + 1) & slot_mask_) {
      const std::uint64_t slot = slots_[i];
      if (slot >> kRankBits == pair) return static_cast<MergeRank>(slot & kRankMask);
      if (slot == kEmptySlot) return kNoMerge;
    }
  }
  TokenId result(MergeRank rank) const noexcept { return results_[rank]; }
  std::uint32_t length(TokenId id) const noexcept { return lengths_[static_cast<std::size_t>(id)]; }
  std::size_t count() const noexcept { return results_.size(); }

 private:
  static constexpr unsigned kIdBits = 21;
  static constexpr unsigned kRankBits = 22;
  static constexpr std::uint64_t kRankMask = (std::uint64_t{1} << kRankBits) - 1;
  static constexpr std::uint64_t kEmptySlot = ~std::uint64_t{0};

  static std::uint64_t pair_of(TokenId left, TokenId right) noexcept {
    return (static_cast<std::uint64_t>(left) << kIdBits) | static_cast<std::uint64_t>(right);
  }
  static std::uint64_t hash_of(std::uint64_t pair) noexcept { return pair * 0x9E3779B97F4A7C15U; }
  std::size_t home_of(std::uint64_t hash) const noexcept {
    return static_cast<std::size_t>(hash >> home_shift_);
  }
  // Four bits stand for each slot; the bit of a pair in the table is set.
  bool may_join(std::uint64_t hash) const noexcept {
    const std::uint64_t bit = hash >> (home_shift_ - 2);
    return ((filter_[bit / 64] >> (bit % 64)) & 1U) != 0;
  }
  void insert(std::uint64_t pair, MergeRank rank) noexcept;

  std::array<TokenId, 256> byte_ids_;
  std::vector<MergeRank> byte_pair_ranks_;
  // Most pairs of a text join to nothing, and the table is larger than a core's cache: the filter tells them
  // apart.
  std::vector<std::uint64_t> filter_;
  std::vector<std::uint64_t> slots_;  // pair << kRankBits | rank; open addressing, at most half full
  std::size_t slot_mask_ = 0;
  unsigned home_shift_ = 0;
  std::vector<TokenId> results_;
  std::vector<std::uint32_t> lengths_;
};

}  // namespace lily::text
