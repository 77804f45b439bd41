// Packing: a transposition of 32-bit words, 16 rows at a time.
#include "backend/cpu/packed_matrix.hpp"

#include <algorithm>
#include <cstring>

namespace lily::cpu {

namespace {

constexpr int kWordsPerGroup = 8;  // of eight 4-bit codes

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

// The 4-bit word of plane `plane` (0 is the higher of two) for columns 8 * index ...
std::uint32_t plane_word(const std::uint32_t* codes, int bits, int planes, int plane, int index) {
  if (bits == 8) return gather_nibbles(codes[2 * index], codes[2 * index + 1], plane == 0 ? 4 : 0);
  return planes == 2 && plane == 0 ? 0U : codes[index];
}

}  // namespace

void pack_block(std::span<const AffineRow> rows, int groups, int bits, int group_size, int planes,
                std::byte* out) {
  const std::size_t group_bytes = static_cast<std::size_t>(planes) * 512 + 64;
  const int groups_per_scale = group_size / kGroup;
  if (static_cast<int>(rows.size()) < kLanes)
    std::memset(out, 0, group_bytes * static_cast<std::size_t>(groups));
  for (int g = 0; g < groups; ++g) {
    auto* words = reinterpret_cast<std::uint32_t*>(out + static_cast<std::size_t>(g) * group_bytes);
    auto* affine = reinterpret_cast<std::uint16_t*>(words + static_cast<std::ptrdiff_t>(planes) * 128);
    for (int r = 0; r < static_cast<int>(rows.size()); ++r) {
      const AffineRow& row = rows[static_cast<std::size_t>(r)];
      if (row.codes == nullptr) {
        for (int w = 0; w < planes * kWordsPerGroup; ++w) words[w * kLanes + r] = 0;
        affine[r] = affine[kLanes + r] = 0;
        continue;
      }
      if (bits == 4 && planes == 1) {
        const std::uint32_t* source = row.codes + static_cast<std::ptrdiff_t>(g) * kWordsPerGroup;
        for (int w = 0; w < kWordsPerGroup; ++w) words[w * kLanes + r] = source[w];
      } else {
        for (int plane = 0; plane < planes; ++plane) {
          for (int w = 0; w < kWordsPerGroup; ++w) {
            words[(plane * kWordsPerGroup + w) * kLanes + r] =
                plane_word(row.codes, bits, planes, plane, g * kWordsPerGroup + w);
          }
        }
      }
      affine[r] = row.scales[g / groups_per_scale];
      affine[kLanes + r] = row.biases[g / groups_per_scale];
    }
  }
}

}  // namespace lily::cpu
