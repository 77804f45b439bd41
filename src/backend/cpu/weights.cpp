// Loading: large reads in file order by several threads, each of which packs what it has read.
#include "backend/cpu/weights.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <numeric>
#include <stop_token>
#include <thread>
#include <tuple>

#include "backend/cpu/packed_matrix.hpp"
#include "backend/cpu/weight_plan.hpp"
#include "base/bf16.hpp"
#include "base/direct_reader.hpp"

namespace lily::cpu {

namespace {

using checkpoint::Checkpoint;
using checkpoint::Matrix;

// A disk is fast when it has several reads to do: while some threads wait for it, others pack. With 8 threads
// on two cores loading 19.5 GB took 8.8 to 10.4 s, with 16 threads 8.0 and 8.4.
constexpr int kLoadersPerCore = 8, kMostLoaders = 16;
// Of a disk that gave 2.2 GB/s in reads of 4 MiB, reads of 1 MiB got 1.2. With what alignment adds a read is
// still one request to a disk that takes 4 MiB: two requests a read took 9.4 s in place of 9.0. A small model
// has many reads too, so that all threads have work.
constexpr std::uint64_t kLargestRead = (4 << 20) - 2 * DirectReader::kAlignment, kSmallestRead = 256 << 10,
                        kReads = 64;
// What lies between two runs (vectors, tensors of no interest) is read with them rather than skipped.
constexpr std::uint64_t kGapBytes = 128 << 10;

// One read, and the runs that it brings.
struct Read {
  int shard = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::span<const TensorRun> runs;
};

// Sorts the runs by their place in the files; together the reads go once over all of them.
std::vector<Read> plan_reads(std::vector<TensorRun>& runs) {
  std::sort(runs.begin(), runs.end(), [](const TensorRun& a, const TensorRun& b) {
    return std::tuple(a.shard, a.offset, a.out) < std::tuple(b.shard, b.offset, b.out);
  });
  const std::uint64_t stored =
      std::accumulate(runs.begin(), runs.end(), std::uint64_t{0},
                      [](std::uint64_t sum, const TensorRun& run) { return sum + run.bytes; });
  const std::uint64_t read_bytes = std::clamp(stored / kReads, kSmallestRead, kLargestRead);
  std::vector<Read> reads;
  for (const TensorRun& run : runs) {
    if (!reads.empty() && reads.back().shard == run.shard) {
      Read& last = reads.back();
      const std::uint64_t end = last.offset + last.bytes, with_run = std::max(end, run.offset + run.bytes);
      if (run.offset <= end + kGapBytes && with_run - last.offset <= read_bytes) {
        last.bytes = with_run - last.offset;
        last.runs = {last.runs.data(), last.runs.size() + 1};
        continue;
      }
    }
    reads.push_back({run.shard, run.offset, run.bytes, {&run, 1}});
  }
  return reads;
}

void pack(const TensorRun& run, const std::byte* bytes, std::byte* out) {
  if (run.content == Content::copy) {
    std::memcpy(out, bytes, run.bytes);
    return;
  }
  const Matrix& matrix = *run.matrix;
  const bool codes = run.content == Content::codes;
  const auto first_column = static_cast<std::size_t>(run.first_group) * kGroup;
  StoredRows rows;
  rows.first = bytes + (codes ? first_column * static_cast<std::size_t>(bits_of(matrix)) / 8
                              : first_column / static_cast<std::size_t>(matrix.group_size) * 2);
  rows.stride = static_cast<std::size_t>(codes ? matrix.weight_row_bytes() : matrix.scale_row_bytes());
  rows.groups = run.groups;
  const std::size_t block_bytes = PackedMatrix{nullptr, kLanes, run.groups, run.planes}.block_bytes();
  for (int row = 0; row < run.rows; row += kLanes) {
    rows.rows = std::min(kLanes, run.rows - row);
    if (codes) {
      pack_codes(rows, bits_of(matrix), run.planes, out);
    } else {
      pack_factors(rows, run.content == Content::scales ? Factor::scale : Factor::bias, matrix.group_size,
                   run.planes, out);
    }
    rows.first += rows.stride * kLanes;
    out += block_bytes;
  }
}

// Counts bytes for the progress callback; safe from all threads.
class SharedProgress {
 public:
  SharedProgress(const Progress& progress, std::uint64_t total) : progress_(progress), total_(total) {}

  void add(std::uint64_t bytes) {
    if (!progress_) return;
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    progress_("loading weights", done_, total_, "bytes");
  }

 private:
  const Progress& progress_;
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  std::mutex mutex_;
};

// A model that takes most of the memory cannot stay in the page cache beside its copy. It is read past the
// cache; where that is not possible or the cache has it already, what was copied is let go of, or else the
// cache leaves no huge pages for the copy (40 % of it was in small pages). Ranges are long, because the cache
// drops only whole runs of pages, and end well behind the readers.
class CacheTrail {
 public:
  CacheTrail(const Checkpoint& checkpoint, bool active) : checkpoint_(checkpoint), active_(active) {}

  ~CacheTrail() {
    if (active_) checkpoint_.forget_all();
  }
  CacheTrail(const CacheTrail&) = delete;
  CacheTrail& operator=(const CacheTrail&) = delete;

  // Readers have come to `offset` of a shard, in order.
  void reached(int shard, std::uint64_t offset) {
    if (!active_) return;
    const std::lock_guard lock(mutex_);
    if (shard > shard_) {
      checkpoint_.forget(shard_, forgotten_, std::numeric_limits<std::uint64_t>::max());
      shard_ = shard;
      forgotten_ = 0;
    }
    if (shard < shard_ || offset < forgotten_ + kTrail + kStride) return;
    checkpoint_.forget(shard_, forgotten_, offset - kTrail - forgotten_);
    forgotten_ = offset - kTrail;
  }

 private:
  static constexpr std::uint64_t kTrail = 256 << 20, kStride = 256 << 20;
  const Checkpoint& checkpoint_;
  bool active_;
  std::mutex mutex_;
  int shard_ = 0;
  std::uint64_t forgotten_ = 0;
};

// Commits the arena's memory as fast as one core can, ahead of those who pack into it. A virtual machine's
// host takes back within seconds what is free, and gives it again at 0.45 GB/s: loading 19.5 GB took 19.1 s
// where packing committed the memory, and 10.4 so. Only memory that is free: the cache may hold the files.
class Committer {
 public:
  explicit Committer(const HugeBuffer& arena)
      : thread_([&arena](const std::stop_token& stop) {
          constexpr std::size_t kStep = 64 << 20;
          constexpr std::uint64_t kLeftFree = std::uint64_t{1} << 30;
          for (std::size_t done = 0; done < arena.size() && !stop.stop_requested(); done += kStep) {
            if (free_memory() < kLeftFree) return;
            arena.populate(done, std::min(kStep, arena.size() - done));
          }
        }) {}

 private:
  std::jthread thread_;
};

// What a thread needs to load: the files, and memory to read into.
class Loader {
 public:
  Loader(const Checkpoint& checkpoint, bool past_cache, int threads, std::uint64_t largest_read)
      : checkpoint_(checkpoint) {
    for (int shard = 0; past_cache && shard < checkpoint.proof().shards; ++shard) {
      readers_.emplace_back(checkpoint.file(shard));
    }
    for (int i = 0; i < threads; ++i) {
      buffers_.emplace_back(DirectReader::buffer_bytes(largest_read), "reading weights");
    }
  }

  void load(const Read& read, int thread, std::byte* arena) const {
    const HugeBuffer& memory = buffers_[static_cast<std::size_t>(thread)];
    std::span<const std::byte> bytes;
    if (readers_.empty()) {
      const std::span out(memory.data(), static_cast<std::size_t>(read.bytes));
      checkpoint_.file(read.shard).read(read.offset, out);
      bytes = out;
    } else {
      const DirectReader& reader = readers_[static_cast<std::size_t>(read.shard)];
      bytes = reader.read(read.offset, read.bytes, {memory.data(), memory.size()});
    }
    for (const TensorRun& run : read.runs) {
      pack(run, bytes.data() + (run.offset - read.offset), arena + run.out);
    }
  }

 private:
  const Checkpoint& checkpoint_;
  std::vector<DirectReader> readers_;  // of the shards; none: through the cache
  std::vector<HugeBuffer> buffers_;    // of the threads
};

}  // namespace

void EmbeddingTable::decode(std::int64_t row, std::span<float> out) const {
  const auto index = static_cast<std::size_t>(row);
  const auto* words = reinterpret_cast<const std::uint32_t*>(codes + index * matrix.weight_row_bytes());
  const std::size_t groups = matrix.scale_row_bytes() / sizeof(std::uint16_t);
  const std::uint16_t* row_scales = scales + index * groups;
  const std::uint16_t* row_biases = biases + index * groups;
  const int bits = bits_of(matrix), per_word = 32 / bits;
  const std::uint32_t mask = (1U << bits) - 1;
  for (std::size_t c = 0; c < out.size(); ++c) {
    const std::uint32_t code = (words[c / per_word] >> (bits * (c % per_word))) & mask;
    const std::size_t group = c / static_cast<std::size_t>(matrix.group_size);
    out[c] = bf16_to_float(row_scales[group]) * static_cast<float>(code) + bf16_to_float(row_biases[group]);
  }
}

Weights load_weights(const Checkpoint& checkpoint, ThreadPool& pool, const Progress& progress,
                     std::uint64_t memory) {
  WeightPlan plan = plan_weights(checkpoint);
  const std::vector<Read> reads = plan_reads(plan.runs);
  std::uint64_t total = 0, largest = 0;
  for (const Read& read : reads) {
    total += read.bytes;
    largest = std::max(largest, read.bytes);
  }
  plan.allocate();

  const bool past_cache = total > memory / 2;
  ThreadPool threads(std::max(pool.size(), std::min(kLoadersPerCore * pool.size(), kMostLoaders)));
  const Loader loader(checkpoint, past_cache, threads.size(), largest);
  SharedProgress shared(progress, total);
  {
    const Committer committer(plan.weights.arena);
    CacheTrail trail(checkpoint, past_cache);
    threads.parallel_in_order(static_cast<std::int64_t>(reads.size()), 1,
                              [&](std::int64_t begin, std::int64_t end, int thread) {
                                for (std::int64_t i = begin; i < end; ++i) {
                                  const Read& read = reads[static_cast<std::size_t>(i)];
                                  loader.load(read, thread, plan.weights.arena.data());
                                  shared.add(read.bytes);
                                  trail.reached(read.shard, read.offset);
                                }
                              });
  }
  return std::move(plan.weights);
}

}  // namespace lily::cpu
