// Writes tensors as safetensors shards with an index, in parallel and without holding them in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
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

// Values are asked for in pieces of this many bytes (the last one of a tensor may be shorter), so that what
// is written depends on tensor and offset only, never on the number of threads.
inline constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20;

// Fills `out` with the tensor's bytes from `offset`, a multiple of kPieceBytes, on. Called from many threads.
using TensorFiller = std::function<void(std::size_t tensor, std::uint64_t offset, std::span<std::byte> out)>;

// Writes model-0000N-of-0000M.safetensors (model.safetensors when one is enough) and the index. A shard ends
// before the tensor that would take it beyond `shard_bytes`. Throws Error(device); no partial file stays
// behind, but finished shards do.
void write_shards(const std::filesystem::path& folder, const std::vector<OutputTensor>& tensors,
                  std::uint64_t shard_bytes, const TensorFiller& fill, ThreadPool& threads,
                  const Progress& progress);

}  // namespace lily::checkpoint
