// Shards are planned first, so that every byte has its place before any is written.
#include "checkpoint/writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "checkpoint/output_file.hpp"
#include "lily/error.hpp"
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

struct ShardWriter::Impl {
  struct Place {
    std::size_t shard = 0;
    std::uint64_t position = 0;  // in the file
  };

  Impl(std::filesystem::path folder_path, std::vector<OutputTensor> listed, std::uint64_t shard_bytes,
       Progress reported)
      : folder(std::move(folder_path)),
        tensors(std::move(listed)),
        progress(std::move(reported)),
        shards(plan_shards(tensors, shard_bytes)) {
    for (std::size_t shard = 0; shard < shards.size(); ++shard) {
      OutputFile& file = *files.emplace_back(std::make_unique<OutputFile>(folder / shards[shard].file));
      const std::string head = header(tensors, shards[shard]);
      file.write(0, std::as_bytes(std::span(head)));
      std::uint64_t position = head.size();
      for (std::size_t i = shards[shard].first; i < shards[shard].last; ++i) {
        places.push_back({shard, position});
        position += tensors[i].bytes();
      }
      missing.push_back(position - head.size());
      total += missing.back();
    }
  }

  // Whether the shard is complete now.
  bool count(std::size_t shard, std::uint64_t bytes) {
    const std::lock_guard lock(mutex);
    done += bytes;
    missing[shard] -= bytes;
    if (progress) progress("writing weights", done, total, "bytes");
    return missing[shard] == 0;
  }

  std::filesystem::path folder;
  std::vector<OutputTensor> tensors;
  Progress progress;
  std::vector<Shard> shards;
  std::vector<std::unique_ptr<OutputFile>> files;  // by shard
  std::vector<Place> places;                       // by tensor
  std::uint64_t total = 0;

  std::mutex mutex;  // guards what follows
  std::uint64_t done = 0;
  std::vector<std::uint64_t> missing;  // bytes by shard
};

ShardWriter::ShardWriter(std::filesystem::path folder, std::vector<OutputTensor> tensors,
                         std::uint64_t shard_bytes, Progress progress)
    : impl_(std::make_unique<Impl>(std::move(folder), std::move(tensors), shard_bytes, std::move(progress))) {
}
ShardWriter::~ShardWriter() = default;

void ShardWriter::write(std::size_t tensor, std::uint64_t offset, std::span<const std::byte> bytes) {
  const Impl::Place& place = impl_->places[tensor];
  OutputFile& file = *impl_->files[place.shard];
  file.write(place.position + offset, bytes);
  if (impl_->count(place.shard, bytes.size())) file.finish();
}

void ShardWriter::finish() {
  if (impl_->done != impl_->total) {
    throw Error(ErrorKind::internal, fmt::format("{}: {} of {} bytes were written", impl_->folder.string(),
                                                 impl_->done, impl_->total));
  }
  write_index(impl_->folder, impl_->tensors, impl_->shards, impl_->total);
}

void write_shards(const std::filesystem::path& folder, const std::vector<OutputTensor>& tensors,
                  std::uint64_t shard_bytes, const TensorFiller& fill, ThreadPool& threads,
                  const Progress& progress) {
  struct Piece {
    std::size_t tensor = 0;
    std::uint64_t offset = 0;
    std::size_t bytes = 0;
  };
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t bytes = tensors[i].bytes();
    for (std::uint64_t offset = 0; offset < bytes; offset += kPieceBytes)
      pieces.push_back({i, offset, static_cast<std::size_t>(std::min(kPieceBytes, bytes - offset))});
  }
  std::vector<std::vector<std::byte>> buffers(static_cast<std::size_t>(threads.size()),
                                              std::vector<std::byte>(static_cast<std::size_t>(kPieceBytes)));
  ShardWriter writer(folder, tensors, shard_bytes, progress);
  threads.parallel_in_order(static_cast<std::int64_t>(pieces.size()), 1,
                            [&](std::int64_t begin, std::int64_t end, int thread) {
                              for (std::int64_t i = begin; i < end; ++i) {
                                const Piece& piece = pieces[static_cast<std::size_t>(i)];
                                const std::span<std::byte> out =
                                    std::span(buffers[static_cast<std::size_t>(thread)]).first(piece.bytes);
                                fill(piece.tensor, piece.offset, out);
                                writer.write(piece.tensor, piece.offset, out);
                              }
                            });
  writer.finish();
}

}  // namespace lily::checkpoint
