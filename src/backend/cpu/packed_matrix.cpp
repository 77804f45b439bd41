// Packing: a transposition of 32-bit words, 16 rows at a time.
#include "backend/cpu/packed_matrix.hpp"

#include <cstring>

namespace lily::cpu {

namespace {

constexpr int kWordsPerGroup = 8;  // of eight 4-bit codes
constexpr std::size_t kPlaneBytes = std::size_t{kWordsPerGroup} * kLanes * sizeof(std::uint32_t);

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

std::size_t group_bytes(int planes) { return PackedMatrix{nullptr, 0, 0, planes}.group_bytes(); }

// Spreads the four nibbles of `bytes` selected by `shift` (0 low, 4 high) of two 8-bit words (columns
// 8c..8c+3 and 8c+4..8c+7) into one 4-bit word of columns 8c .. 8c+7.
std::uint32_t gather_nibbles(std::uint32_t first, std::uint32_t second, int shift) {
  std::uint32_t word = 0;
  for (int i = 0; i < 4; ++i) {
    word |= ((first >> (8 * i + shift)) & 15U) << (4 * i);
    word |= ((second >> (8 * i + shift)) & 15U) << (4 * i + 16);
  }
  return word;
}

// Words of one plane of a group, 16 rows apart.
void pack_words(const std::byte* words, std::byte* lane) {
  std::uint32_t values[kWordsPerGroup];
  std::memcpy(values, words, sizeof values);
  for (int w = 0; w < kWordsPerGroup; ++w) {
    std::memcpy(lane + static_cast<std::ptrdiff_t>(w) * kLanes * 4, &values[w], sizeof(std::uint32_t));
  }
}

// 8-bit codes: the high nibbles' plane, then the low ones'.
void pack_bytes(const std::byte* words, std::byte* lane) {
  for (int w = 0; w < kWordsPerGroup; ++w) {
    const auto first = load<std::uint32_t>(words + static_cast<std::ptrdiff_t>(w) * 8);
    const auto second = load<std::uint32_t>(words + static_cast<std::ptrdiff_t>(w) * 8 + 4);
    std::byte* const out = lane + static_cast<std::ptrdiff_t>(w) * kLanes * 4;
    const std::uint32_t high = gather_nibbles(first, second, 4), low = gather_nibbles(first, second, 0);
    std::memcpy(out, &high, sizeof high);
    std::memcpy(out + kPlaneBytes, &low, sizeof low);
  }
}

}  // namespace

void pack_codes(const StoredRows& codes, int bits, int planes, std::byte* block) {
  const std::size_t stored_bytes = static_cast<std::size_t>(bits) * kGroup / 8;
  // 4-bit codes are the low plane, which is the last.
  if (bits == 4) block += static_cast<std::size_t>(planes - 1) * kPlaneBytes;
  for (int g = 0; g < codes.groups; ++g) {
    for (int r = 0; r < codes.rows; ++r) {
      const std::byte* const words = codes.first + static_cast<std::size_t>(r) * codes.stride;
      std::byte* const lane = block + static_cast<std::ptrdiff_t>(r) * 4;
      if (bits == 4) {
        pack_words(words + static_cast<std::size_t>(g) * stored_bytes, lane);
      } else {
        pack_bytes(words + static_cast<std::size_t>(g) * stored_bytes, lane);
      }
    }
    block += group_bytes(planes);
  }
}

void pack_factors(const StoredRows& factors, Factor factor, int group_size, int planes, std::byte* block) {
  const int groups_per_factor = group_size / kGroup;
  const std::size_t next_block = static_cast<std::size_t>(factors.groups) * group_bytes(planes);
  block += static_cast<std::size_t>(planes) * kPlaneBytes;
  if (factor == Factor::bias) block += std::size_t{kLanes} * sizeof(std::uint16_t);
  for (int g = 0; g < factors.groups; ++g) {
    // Every line is far from the one before: a third of this function's time.
    __builtin_prefetch(block + next_block, 1);
    std::uint16_t values[kLanes] = {};
    const std::byte* from = factors.first + static_cast<std::size_t>(g / groups_per_factor) * 2;
    for (int r = 0; r < factors.rows; ++r, from += factors.stride) values[r] = load<std::uint16_t>(from);
    std::memcpy(block, values, sizeof values);
    block += group_bytes(planes);
  }
}

}  // namespace lily::cpu
