// Memory for quantized activation rows.
#pragma once

#include <cstddef>
#include <vector>

#include "backend/cpu/kernels.hpp"
#include "base/huge_buffer.hpp"

namespace lily::cpu {

// `rows` rows of up to `columns` values (a multiple of 64), all in one format.
class ActivationRows {
 public:
  ActivationRows() = default;
  ActivationRows(int rows, int columns, bool exact)
      : ActivationRows(rows, columns, exact ? RowFormat::two_terms : RowFormat::one_term) {}
  ActivationRows(int rows, int columns, RowFormat format) : rows_(static_cast<std::size_t>(rows)) {
    const std::size_t codes = static_cast<std::size_t>(columns);
    if (format == RowFormat::bf16) {
      // A line more than there is, so that the rows of a tile do not fall into one set of a cache.
      const std::size_t row_bytes = 2 * codes + 64;
      memory_ = HugeBuffer(row_bytes * rows_.size(), "activations");
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        rows_[i].bf16 = reinterpret_cast<std::uint16_t*>(memory_.data() + i * row_bytes);
      }
      return;
    }
    const bool exact = format == RowFormat::two_terms, wide = format == RowFormat::wide;
    const std::size_t scales = wide ? (codes + kWideColumns - 1) / kWideColumns : codes / kGroup;
    const std::size_t floats = ((wide ? 1 : 2) * scales * sizeof(float) + 63) / 64 * 64;
    const std::size_t row_bytes = (exact ? 2 : 1) * codes + floats;
    memory_ = HugeBuffer(row_bytes * rows_.size(), "activations");
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      std::byte* p = memory_.data() + i * row_bytes;
      rows_[i].high = reinterpret_cast<std::int8_t*>(p);
      rows_[i].low = exact ? rows_[i].high + codes : nullptr;
      rows_[i].scales = reinterpret_cast<float*>(p + (exact ? 2 : 1) * codes);
      rows_[i].sums = wide ? nullptr : rows_[i].scales + scales;
    }
  }

  const ActivationRow& operator[](int row) const { return rows_[static_cast<std::size_t>(row)]; }
  const ActivationRow* data() const { return rows_.data(); }
  std::size_t bytes() const { return memory_.size(); }

 private:
  HugeBuffer memory_;
  std::vector<ActivationRow> rows_;
};

}  // namespace lily::cpu
