// Some rows of one matrix: read, encoded and written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "checkpoint/quantizer_plan.hpp"
#include "checkpoint/shard_set.hpp"
#include "checkpoint/writer.hpp"

namespace lily::checkpoint {

// Consecutive rows, in the source's weight and in the output.
struct RowRange {
  std::size_t matrix = 0;  // of the plan
  std::int64_t source_row = 0;
  std::int64_t output_row = 0;
  std::int64_t rows = 0;
};

// All rows of all matrices in ranges of about half a million values: small enough for a buffer per thread,
// large enough for the disk.
std::vector<RowRange> row_ranges(const QuantizePlan& plan);

// Keeps its buffers; one per thread.
class RowQuantizer {
 public:
  RowQuantizer(const ShardSet& shards, const QuantizePlan& plan) : shards_(shards), plan_(plan) {}

  // Throws Error: bad_input for a value that is not finite or a group too wide for bf16, device.
  void run(const RowRange& range, ShardWriter& writer);

 private:
  void read(const Matrix& source, const RowRange& range);
  [[noreturn]] void fail(const Matrix& source, std::int64_t row, const char* message) const;

  const ShardSet& shards_;
  const QuantizePlan& plan_;
  std::vector<std::byte> raw_;
  std::vector<float> values_;
  std::vector<std::uint8_t> codes_;
  std::vector<std::byte> packed_;
  std::vector<std::uint16_t> scales_;
  std::vector<std::uint16_t> biases_;
};

}  // namespace lily::checkpoint
