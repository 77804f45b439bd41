// Shards are planned first, so that every byte has its place before any is written.
#include "checkpoint/writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "checkpoint/output_file.hpp"
#include "lily/json.hpp"

namespace lily::checkpoint {
namespace {

// Readers that map the file get the first tensor on a cache line; readers must accept trailing spaces.
constexpr std::size_t kHeaderAlignment = 64;

struct Shard {
  std::string file;
  std::size_t first = 0;  // tensors [first, last)
  std::size_t last = 0;
};

std::vector<Shard> plan_shards(const std::vector<OutputTensor>& tensors, std::uint64_t shard_bytes) {
  std::vector<Shard> shards;
  std::uint64_t filled = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t bytes = tensors[i].bytes();
    if (shards.empty() || filled + bytes > shard_bytes) {
      shards.push_back({"", i, i});
      filled = 0;
    }
    shards.back().last = i + 1;
    filled += bytes;
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    shards[i].file = shards.size() == 1
                         ? "model.safetensors"
                         : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  }
  return shards;
}

// The length field and the JSON text, padded.
std::string header(const std::vector<OutputTensor>& tensors, const Shard& shard) {
  Json json = Json::object();
  json.set("__metadata__", Json::object({{"format", Json::string("mlx")}}));
  std::uint64_t position = 0;
  for (std::size_t i = shard.first; i < shard.last; ++i) {
    Json shape = Json::array();
    for (const std::int64_t size : tensors[i].shape) shape.as_array().push_back(Json::integer(size));
    const std::uint64_t end = position + tensors[i].bytes();
    Json offsets = Json::array(
        {Json::integer(static_cast<std::int64_t>(position)), Json::integer(static_cast<std::int64_t>(end))});
    Json entry = Json::object();
    entry.set("dtype", Json::string(tensors[i].dtype));
    entry.set("shape", std::move(shape));
    entry.set("data_offsets", std::move(offsets));
    json.as_object().emplace_back(tensors[i].name, std::move(entry));
    position = end;
  }
  constexpr std::size_t kLengthBytes = 8;
  std::string text = json.dump();
  text.resize((text.size() + kLengthBytes + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment -
                  kLengthBytes,
              ' ');
  std::string length;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    length += static_cast<char>((text.size() >> (8 * i)) & 0xffU);
  return length + text;
}

// Adds up finished bytes over threads.
class ProgressCounter {
 public:
  ProgressCounter(const Progress& progress, std::uint64_t total) : progress_(progress), total_(total) {}

  void add(std::uint64_t bytes) {
    if (!progress_) return;
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    progress_("writing weights", done_, total_, "bytes");
  }

 private:
  const Progress& progress_;
  std::uint64_t total_;
  std::mutex mutex_;
  std::uint64_t done_ = 0;
};

struct Piece {
  std::size_t tensor = 0;
  std::uint64_t offset = 0;    // in the tensor
  std::uint64_t position = 0;  // in the file
  std::size_t bytes = 0;
};

std::vector<Piece> pieces_of(const std::vector<OutputTensor>& tensors, const Shard& shard,
                             std::uint64_t position) {
  std::vector<Piece> pieces;
  for (std::size_t i = shard.first; i < shard.last; ++i) {
    const std::uint64_t bytes = tensors[i].bytes();
    for (std::uint64_t offset = 0; offset < bytes; offset += kPieceBytes) {
      pieces.push_back(
          {i, offset, position + offset, static_cast<std::size_t>(std::min(kPieceBytes, bytes - offset))});
    }
    position += bytes;
  }
  return pieces;
}

void write_index(const std::filesystem::path& folder, const std::vector<OutputTensor>& tensors,
                 const std::vector<Shard>& shards, std::uint64_t total) {
  Json map = Json::object();
  for (const Shard& shard : shards) {
    for (std::size_t i = shard.first; i < shard.last; ++i) {
      map.as_object().emplace_back(tensors[i].name, Json::string(shard.file));
    }
  }
  Json metadata = Json::object();
  metadata.set("total_size", Json::integer(static_cast<std::int64_t>(total)));
  Json index = Json::object();
  index.set("metadata", std::move(metadata));
  index.set("weight_map", std::move(map));
  write_text_file(folder / "model.safetensors.index.json", index.dump() + "\n");
}

}  // namespace

std::uint64_t OutputTensor::bytes() const {
  std::uint64_t bytes = dtype == "BF16" ? 2 : 4;
  for (const std::int64_t size : shape) bytes *= static_cast<std::uint64_t>(size);
  return bytes;
}

void write_shards(const std::filesystem::path& folder, const std::vector<OutputTensor>& tensors,
                  std::uint64_t shard_bytes, const TensorFiller& fill, ThreadPool& threads,
                  const Progress& progress) {
  std::uint64_t total = 0;
  for (const OutputTensor& tensor : tensors) total += tensor.bytes();
  ProgressCounter counter(progress, total);
  std::vector<std::vector<std::byte>> buffers(static_cast<std::size_t>(threads.size()),
                                              std::vector<std::byte>(static_cast<std::size_t>(kPieceBytes)));
  const std::vector<Shard> shards = plan_shards(tensors, shard_bytes);
  for (const Shard& shard : shards) {
    OutputFile file(folder / shard.file);
    const std::string head = header(tensors, shard);
    file.write(0, std::as_bytes(std::span(head)));
    const std::vector<Piece> pieces = pieces_of(tensors, shard, head.size());
    threads.parallel_for(static_cast<std::int64_t>(pieces.size()), 1,
                         [&](std::int64_t begin, std::int64_t end, int thread) {
                           for (std::int64_t i = begin; i < end; ++i) {
                             const Piece& piece = pieces[static_cast<std::size_t>(i)];
                             const std::span<std::byte> out =
                                 std::span(buffers[static_cast<std::size_t>(thread)]).first(piece.bytes);
                             fill(piece.tensor, piece.offset, out);
                             file.write(piece.position, out);
                             counter.add(piece.bytes);
                           }
                         });
    file.finish();
  }
  write_index(folder, tensors, shards, total);
}

}  // namespace lily::checkpoint
