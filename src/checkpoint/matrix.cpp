// Sizes of a bound matrix, and one row of it as fp32.
#include <fmt/format.h>

#include <cstring>

#include "base/bf16.hpp"
#include "checkpoint/affine.hpp"
#include "checkpoint/checkpoint.hpp"
#include "lily/error.hpp"

namespace lily::checkpoint {
namespace {

bool is_affine(MatrixFormat format) {
  return format == MatrixFormat::affine4 || format == MatrixFormat::affine8;
}

std::span<const std::byte> row_of(std::span<const std::byte> tensor, std::uint64_t row,
                                  std::uint64_t row_bytes) {
  return tensor.subspan(static_cast<std::size_t>(row * row_bytes), static_cast<std::size_t>(row_bytes));
}

}  // namespace

std::uint64_t Matrix::weight_row_bytes() const {
  const auto count = static_cast<std::uint64_t>(columns);
  switch (format) {
    case MatrixFormat::affine4:
      return count / 2;
    case MatrixFormat::affine8:
      return count;
    case MatrixFormat::bf16:
      return count * 2;
    case MatrixFormat::f32:
      return count * 4;
  }
  return 0;  // unreachable: all formats are listed
}

std::uint64_t Matrix::scale_row_bytes() const {
  return is_affine(format) ? 2 * static_cast<std::uint64_t>(columns / group_size) : 0;
}

std::uint64_t Matrix::stored_bytes() const {
  return static_cast<std::uint64_t>(experts * rows) * (weight_row_bytes() + 2 * scale_row_bytes());
}

void decode_row(const Checkpoint& checkpoint, const Matrix& matrix, int expert, std::int64_t row,
                std::span<float> out) {
  if (expert < 0 || expert >= matrix.experts || row < 0 || row >= matrix.rows ||
      out.size() != static_cast<std::size_t>(matrix.columns)) {
    throw Error(
        ErrorKind::internal,
        fmt::format("{}: row {} of expert {} with {} columns asked, the matrix has {} experts of {} x {}",
                    matrix.name, row, expert, out.size(), matrix.experts, matrix.rows, matrix.columns));
  }
  const auto index = static_cast<std::uint64_t>(matrix.row_index(expert, row));
  const std::span<const std::byte> weight =
      row_of(checkpoint.mapped(matrix.weight), index, matrix.weight_row_bytes());
  switch (matrix.format) {
    case MatrixFormat::affine4:
    case MatrixFormat::affine8:
      decode_affine_row(weight, row_of(checkpoint.mapped(matrix.scales), index, matrix.scale_row_bytes()),
                        row_of(checkpoint.mapped(matrix.biases), index, matrix.scale_row_bytes()),
                        matrix.format == MatrixFormat::affine4 ? 4 : 8, matrix.group_size, out);
      break;
    case MatrixFormat::bf16:
      for (std::size_t i = 0; i < out.size(); ++i) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, weight.data() + 2 * i, sizeof(bits));
        out[i] = bf16_to_float(bits);
      }
      break;
    case MatrixFormat::f32:
      std::memcpy(out.data(), weight.data(), weight.size());
      break;
  }
}

}  // namespace lily::checkpoint
