// Rows of bf16 or f32 weights to codes, scales and biases.
#include "checkpoint/quantizer_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/bf16.hpp"
#include "checkpoint/affine.hpp"
#include "lily/error.hpp"

namespace lily::checkpoint {
namespace {

constexpr std::int64_t kRangeValues = std::int64_t{1} << 19;

std::uint16_t load_u16(const std::byte* bytes) {
  std::uint16_t value = 0;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

bool is_finite_bf16(std::uint16_t bits) { return (bits & 0x7f80U) != 0x7f80U; }

}  // namespace

std::vector<RowRange> row_ranges(const QuantizePlan& plan) {
  std::vector<RowRange> ranges;
  for (std::size_t i = 0; i < plan.matrices.size(); ++i) {
    const Matrix& source = plan.matrices[i].source;
    // Experts that follow each other without a gap are one long matrix.
    const bool joined = source.expert_stride_rows == source.rows;
    const int runs = joined ? 1 : source.experts;
    const std::int64_t run_rows = joined ? source.experts * source.rows : source.rows;
    const std::int64_t step = std::max<std::int64_t>(1, kRangeValues / source.columns);
    for (int run = 0; run < runs; ++run) {
      for (std::int64_t row = 0; row < run_rows; row += step) {
        ranges.push_back(
            {i, source.row_index(run, row), run * run_rows + row, std::min(step, run_rows - row)});
      }
    }
  }
  return ranges;
}

void RowQuantizer::fail(const Matrix& source, std::int64_t row, const char* message) const {
  throw Error(ErrorKind::bad_input,
              fmt::format("{}: tensor {}: row {} {}",
                          shards_.files()[static_cast<std::size_t>(source.weight.shard)].path().string(),
                          source.name, row, message));
}

void RowQuantizer::read(const Matrix& source, const RowRange& range) {
  const std::uint64_t row_bytes = source.weight_row_bytes();
  const auto columns = static_cast<std::size_t>(source.columns);
  raw_.resize(static_cast<std::size_t>(range.rows) * static_cast<std::size_t>(row_bytes));
  values_.resize(static_cast<std::size_t>(range.rows) * columns);
  shards_.files()[static_cast<std::size_t>(source.weight.shard)].read(
      source.weight.offset + static_cast<std::uint64_t>(range.source_row) * row_bytes, raw_);
  if (source.format == MatrixFormat::f32) {
    std::memcpy(values_.data(), raw_.data(), raw_.size());
    // Converted weights are bf16 before they are quantized.
    for (float& value : values_) value = bf16_to_float(float_to_bf16(value));
  } else {
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = bf16_to_float(load_u16(&raw_[2 * i]));
  }
  for (std::size_t row = 0; row < static_cast<std::size_t>(range.rows); ++row) {
    const auto begin = values_.begin() + static_cast<std::ptrdiff_t>(row * columns);
    if (!std::all_of(begin, begin + source.columns, [](float value) { return std::isfinite(value); })) {
      fail(source, range.source_row + static_cast<std::int64_t>(row), "has a value that is not finite");
    }
  }
}

void RowQuantizer::run(const RowRange& range, ShardWriter& writer) {
  const QuantizedMatrix& matrix = plan_.matrices[range.matrix];
  const Quantization& quantization = matrix.quantization;
  read(matrix.source, range);
  const auto group = static_cast<std::size_t>(quantization.group_size);
  const auto row_groups = static_cast<std::size_t>(matrix.source.columns) / group;
  const std::size_t groups = values_.size() / group;
  codes_.resize(values_.size());
  packed_.resize(values_.size() * static_cast<std::size_t>(quantization.bits) / 8);
  scales_.resize(groups);
  biases_.resize(groups);
  for (std::size_t i = 0; i < groups; ++i) {
    const AffineGroup encoded =
        encode_affine_group(std::span(values_).subspan(i * group, group), quantization.bits,
                            std::span(codes_).subspan(i * group, group));
    if (!is_finite_bf16(encoded.scale) || !is_finite_bf16(encoded.bias)) {
      fail(matrix.source, range.source_row + static_cast<std::int64_t>(i / row_groups),
           "has a group whose range is too wide for bf16");
    }
    scales_[i] = encoded.scale;
    biases_[i] = encoded.bias;
  }
  pack_codes(codes_, quantization.bits, packed_);
  const auto row = static_cast<std::uint64_t>(range.output_row);
  const std::uint64_t code_bytes = packed_.size() / static_cast<std::size_t>(range.rows);
  writer.write(matrix.first_output, row * code_bytes, packed_);
  writer.write(matrix.first_output + 1, row * row_groups * 2, std::as_bytes(std::span(scales_)));
  writer.write(matrix.first_output + 2, row * row_groups * 2, std::as_bytes(std::span(biases_)));
}

}  // namespace lily::checkpoint
