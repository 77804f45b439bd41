// Writes tensors as safetensors shards with an index, in parallel and without holding them in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.hpp"
#include "lily/progress.hpp"

namespace lily::checkpoint {

struct OutputTensor {
  std::string name;
  std::string dtype;  // BF16, F32 or U32
  std::vector<std::int64_t> shape;
  std::uint64_t bytes() const;
};

// Takes bytes in any order and from any thread; a shard gets its name when its last byte has come, so that no
// more than the pieces being worked on are in memory. Files are model-0000N-of-0000M.safetensors
// (model.safetensors when one is enough); a shard ends before the tensor that would take it beyond
// `shard_bytes`. All errors are Error(device); no partial file stays behind, but finished shards do.
class ShardWriter {
 public:
  ShardWriter(std::filesystem::path folder, std::vector<OutputTensor> tensors, std::uint64_t shard_bytes,
              Progress progress);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  // Every byte of every tensor exactly once.
  void write(std::size_t tensor, std::uint64_t offset, std::span<const std::byte> bytes);
  // After the last byte: writes the index.
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Values are asked for in pieces of this many bytes (the last one of a tensor may be shorter), so that what
// is written depends on tensor and offset only, never on the number of threads.
inline constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20;

// Fills `out` with the tensor's bytes from `offset`, a multiple of kPieceBytes, on. Called from many threads.
using TensorFiller = std::function<void(std::size_t tensor, std::uint64_t offset, std::span<std::byte> out)>;

// Writes tensors of which every piece can be made on its own.
void write_shards(const std::filesystem::path& folder, const std::vector<OutputTensor>& tensors,
                  std::uint64_t shard_bytes, const TensorFiller& fill, ThreadPool& threads,
                  const Progress& progress);

}  // namespace lily::checkpoint
