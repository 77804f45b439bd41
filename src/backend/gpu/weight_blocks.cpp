// Repacking of affine rows into weight blocks.
#include "backend/gpu/weight_blocks.hpp"

#include <cstring>

#include "base/bf16.hpp"

namespace lily::gpu {
namespace {

constexpr int kGroup = 64;
constexpr int kLaneInputs = 16;  // of one lane in a group

// Eight codes of `plane`, lowest input first.
std::uint32_t eight_codes(const AffineRow& row, const AffineFormat& format, int column, int plane) {
  if (row.codes == nullptr || column >= format.columns) return 0;
  if (format.bits == 4) return plane == 0 ? row.codes[column / 8] : 0;
  std::uint32_t word = 0;
  for (int i = 0; i < 8; ++i) {
    const std::uint32_t code = row.codes[(column + i) / 4] >> (8 * ((column + i) % 4)) & 255U;
    word |= (plane == 0 ? code & 15U : code >> 4) << (4 * i);
  }
  return word;
}

// Scale and bias of one group of 64.
struct Factors {
  std::uint16_t scale = 0, bias = 0;
};

Factors factors_of(const AffineRow& row, const AffineFormat& format, int column, int plane) {
  if (row.codes == nullptr || column >= format.columns) return {};
  const int group = column / format.group_size;
  if (plane == 0) return {row.scales[group], row.biases[group]};
  if (format.bits == 4) return {};
  return {float_to_bf16(16 * bf16_to_float(row.scales[group])), 0};  // exact: a power of two
}

}  // namespace

void pack_tile(std::span<const AffineRow> rows, const AffineFormat& format, std::byte* out) {
  constexpr AffineRow kNoRow;
  const auto row = [&](int index) -> const AffineRow& {
    return static_cast<std::size_t>(index) < rows.size() ? rows[static_cast<std::size_t>(index)] : kNoRow;
  };
  for (int block = 0; block < format.blocks(); ++block) {
    for (int plane = 0; plane < format.planes; ++plane, out += WeightBlock::bytes) {
      for (int lane = 0; lane < 32; ++lane) {
        const int g = lane / 4, c = lane % 4;
        const int first = block * static_cast<int>(WeightBlock::inputs);
        for (int group = 0; group < static_cast<int>(WeightBlock::groups); ++group) {
          const int column = first + group * kGroup + c * kLaneInputs;
          const std::uint32_t words[4] = {eight_codes(row(g), format, column, plane),
                                          eight_codes(row(g), format, column + 8, plane),
                                          eight_codes(row(g + 8), format, column, plane),
                                          eight_codes(row(g + 8), format, column + 8, plane)};
          std::memcpy(out + group * 512 + lane * 16, words, sizeof words);
        }
        const Factors pair[2] = {factors_of(row(g), format, first + c * kGroup, plane),
                                 factors_of(row(g + 8), format, first + c * kGroup, plane)};
        std::memcpy(out + WeightBlock::code_bytes + lane * 8, pair, sizeof pair);
      }
    }
  }
}

}  // namespace lily::gpu
