// Loading: plan the arena, list the reads, sort them by file position, then read and pack in parallel.
#include "backend/cpu/weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <tuple>

#include "backend/cpu/packed_matrix.hpp"
#include "base/bf16.hpp"
#include "base/machine_memory.hpp"
#include "lily/error.hpp"

namespace lily::cpu {

namespace {

using checkpoint::Checkpoint;
using checkpoint::Matrix;
using checkpoint::MatrixFormat;

constexpr int pad_to_lanes(std::int64_t rows) {
  return static_cast<int>((rows + kLanes - 1) / kLanes * kLanes);
}
constexpr int kRowsPerJob = 1024;  // 1 MiB of codes at 2048 columns
// A disk is fast when it has several reads to do: while some threads wait for it, others pack.
constexpr int kLoadersPerCore = 4, kMostLoaders = 16;

int bits_of(const Matrix& matrix) { return matrix.format == MatrixFormat::affine4 ? 4 : 8; }

void require_kernel(const Matrix& matrix) {
  const bool affine = matrix.format == MatrixFormat::affine4 || matrix.format == MatrixFormat::affine8;
  if (!affine) {
    throw Error(ErrorKind::unsupported,
                fmt::format("{}: the cpu backend runs 4-bit and 8-bit affine checkpoints, this tensor is not "
                            "quantized; use --backend reference or a quantized checkpoint",
                            matrix.name));
  }
  if (matrix.group_size != 64 && matrix.group_size != 128) {
    throw Error(ErrorKind::unsupported, fmt::format("{}: group size {} has no cpu kernel, 64 and 128 have",
                                                    matrix.name, matrix.group_size));
  }
  if (matrix.columns % kGroup != 0) {
    throw Error(ErrorKind::unsupported, fmt::format("{}: {} columns, the cpu backend needs a multiple of {}",
                                                    matrix.name, matrix.columns, kGroup));
  }
}

// One read-and-pack: columns of rows [row, row + rows) of an expert go to consecutive blocks at `out`.
struct PackJob {
  const Matrix* source = nullptr;
  int expert = 0;
  int first_group = 0;
  int groups = 0;
  std::int64_t row = 0;
  int rows = 0;
  int planes = 1;
  std::byte* out = nullptr;
};

// Places matrices in the arena; pointers are offsets until the arena exists.
class Planner {
 public:
  // Packs the rows of `parts` below each other; returns the first row of each part in `rows_of_parts`.
  PackedMatrix place(std::initializer_list<const Matrix*> parts, int expert,
                     std::vector<int>* rows_of_parts) {
    return place_columns(parts, expert, 0, static_cast<int>((*parts.begin())->columns / kGroup),
                         rows_of_parts);
  }

  // One matrix, cut into panels of kPanelColumns.
  std::vector<PackedMatrix> place_panels(const Matrix& matrix) {
    std::vector<PackedMatrix> panels;
    const int groups = static_cast<int>(matrix.columns / kGroup);
    for (int first = 0; first < groups; first += kPanelColumns / kGroup) {
      panels.push_back(
          place_columns({&matrix}, 0, first, std::min(kPanelColumns / kGroup, groups - first), nullptr));
    }
    return panels;
  }

  std::byte* place_raw(std::uint64_t bytes) {
    std::byte* place = at(bytes_);
    bytes_ += (bytes + 63) / 64 * 64;
    return place;
  }

  std::size_t bytes() const { return bytes_; }
  std::vector<PackJob>& jobs() { return jobs_; }

 private:
  static std::byte* at(std::size_t offset) { return reinterpret_cast<std::byte*>(offset); }

  PackedMatrix place_columns(std::initializer_list<const Matrix*> parts, int expert, int first_group,
                             int groups, std::vector<int>* rows_of_parts) {
    PackedMatrix packed;
    packed.groups = groups;
    for (const Matrix* part : parts) {
      require_kernel(*part);
      packed.planes = std::max(packed.planes, bits_of(*part) / 4);
    }
    std::vector<int> first_rows;
    for (const Matrix* part : parts) {
      first_rows.push_back(packed.rows);
      packed.rows += pad_to_lanes(part->rows);
    }
    packed.data = at(bytes_);
    std::size_t index = 0;
    for (const Matrix* part : parts) {
      const int base = first_rows[index++];
      for (std::int64_t row = 0; row < part->rows; row += kRowsPerJob) {
        PackJob job;
        job.source = part;
        job.expert = expert;
        job.first_group = first_group;
        job.groups = groups;
        job.row = row;
        job.rows = static_cast<int>(std::min<std::int64_t>(kRowsPerJob, part->rows - row));
        job.planes = packed.planes;
        job.out = at(bytes_ + static_cast<std::size_t>((base + row) / kLanes) * packed.block_bytes());
        jobs_.push_back(job);
      }
    }
    bytes_ += packed.bytes();
    if (rows_of_parts != nullptr) *rows_of_parts = first_rows;
    return packed;
  }

  std::size_t bytes_ = 0;
  std::vector<PackJob> jobs_;
};

LayerWeights plan_layer(const checkpoint::Layer& layer, const model::Dimensions& dims, Planner& planner) {
  LayerWeights out;
  out.kind = layer.kind;
  out.input_norm = layer.input_norm;
  out.post_attention_norm = layer.post_attention_norm;
  std::vector<int> rows;
  if (layer.delta_net) {
    const checkpoint::DeltaNet& net = *layer.delta_net;
    out.mixer_in =
        planner.place({&net.in_proj_qkv, &net.in_proj_z, &net.in_proj_b, &net.in_proj_a}, 0, &rows);
    std::tie(out.z_row, out.b_row, out.a_row) = std::tuple(rows[1], rows[2], rows[3]);
    out.mixer_out = planner.place_panels(net.out_proj);
    const int channels = dims.conv_channels(), taps = dims.conv_kernel;
    out.convolution.resize(net.convolution.size());
    for (int c = 0; c < channels; ++c) {
      for (int m = 0; m < taps; ++m) out.convolution[m * channels + c] = net.convolution[c * taps + m];
    }
    for (const float a : net.a_log) out.decay.push_back(-std::exp(a));
    out.dt_bias = net.dt_bias;
    out.head_norm = net.norm;
  } else {
    const checkpoint::Attention& attention = *layer.attention;
    out.mixer_in = planner.place({&attention.q_proj, &attention.k_proj, &attention.v_proj}, 0, &rows);
    std::tie(out.k_row, out.v_row) = std::tuple(rows[1], rows[2]);
    out.mixer_out = planner.place_panels(attention.o_proj);
    out.q_norm = attention.q_norm;
    out.k_norm = attention.k_norm;
  }
  const checkpoint::MixtureOfExperts& moe = layer.moe;
  out.router = planner.place({&moe.router, &moe.shared_expert_gate}, 0, &rows);
  out.shared_gate_row = rows[1];
  for (int e = 0; e < dims.experts; ++e) {
    out.gate_up.push_back(planner.place({&moe.gate_proj, &moe.up_proj}, e, nullptr));
    out.down.push_back(planner.place({&moe.down_proj}, e, nullptr));
  }
  out.gate_up.push_back(planner.place({&moe.shared_gate_proj, &moe.shared_up_proj}, 0, nullptr));
  out.down.push_back(planner.place({&moe.shared_down_proj}, 0, nullptr));
  return out;
}

// Adds the arena's address to the offsets that the planner left.
void relocate(PackedMatrix& matrix, std::byte* base) {
  matrix.data = base + reinterpret_cast<std::size_t>(matrix.data);
}

void relocate(Weights& weights, std::byte* base) {
  for (LayerWeights& layer : weights.layers) {
    for (PackedMatrix* matrix : {&layer.mixer_in, &layer.router}) relocate(*matrix, base);
    for (PackedMatrix& matrix : layer.mixer_out) relocate(matrix, base);
    for (PackedMatrix& matrix : layer.gate_up) relocate(matrix, base);
    for (PackedMatrix& matrix : layer.down) relocate(matrix, base);
  }
  relocate(weights.head, base);
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

// A model that takes most of the memory cannot stay in the page cache beside its copy: what was copied is let
// go of, or else the cache leaves no huge pages for the copy (40 % of it was in small pages). Ranges are
// long, because the cache drops only whole runs of pages, and end well behind the readers, whose scales and
// biases may lie before their codes.
class CacheTrail {
 public:
  CacheTrail(const Checkpoint& checkpoint, std::uint64_t total)
      : checkpoint_(checkpoint), active_(total > machine_memory() / 2) {}

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

// A thread's staging memory for the rows of one job.
struct Staging {
  std::vector<std::uint32_t> codes;
  std::vector<std::uint16_t> scales, biases;
};

// Returns the bytes read.
std::uint64_t run_job(const Checkpoint& checkpoint, const PackJob& job, Staging& staging) {
  const Matrix& matrix = *job.source;
  const std::uint64_t code_bytes = matrix.weight_row_bytes(), scale_bytes = matrix.scale_row_bytes();
  const auto first = static_cast<std::uint64_t>(matrix.row_index(job.expert, job.row));
  const auto rows = static_cast<std::uint64_t>(job.rows);
  staging.codes.resize(rows * code_bytes / sizeof(std::uint32_t));
  staging.scales.resize(rows * scale_bytes / sizeof(std::uint16_t));
  staging.biases.resize(staging.scales.size());
  checkpoint.read(matrix.weight, first * code_bytes, std::as_writable_bytes(std::span(staging.codes)));
  checkpoint.read(matrix.scales, first * scale_bytes, std::as_writable_bytes(std::span(staging.scales)));
  checkpoint.read(matrix.biases, first * scale_bytes, std::as_writable_bytes(std::span(staging.biases)));

  const std::size_t block_bytes = PackedMatrix{nullptr, kLanes, job.groups, job.planes}.block_bytes();
  const int bits = bits_of(matrix), first_column = job.first_group * kGroup;
  const std::size_t first_word = static_cast<std::size_t>(first_column) * static_cast<std::size_t>(bits) / 32;
  const auto first_scale = static_cast<std::size_t>(first_column / matrix.group_size);
  for (int row = 0; row < job.rows; row += kLanes) {
    AffineRow block[kLanes];
    const int count = std::min(kLanes, job.rows - row);
    for (int r = 0; r < count; ++r) {
      const auto index = static_cast<std::size_t>(row + r);
      block[r].codes = staging.codes.data() + index * (code_bytes / sizeof(std::uint32_t)) + first_word;
      block[r].scales = staging.scales.data() + index * (scale_bytes / sizeof(std::uint16_t)) + first_scale;
      block[r].biases = staging.biases.data() + index * (scale_bytes / sizeof(std::uint16_t)) + first_scale;
    }
    pack_block(std::span(block, static_cast<std::size_t>(count)), job.groups, bits, matrix.group_size,
               job.planes, job.out + static_cast<std::size_t>(row / kLanes) * block_bytes);
  }
  return rows * (code_bytes + 2 * scale_bytes);
}

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

Weights load_weights(const Checkpoint& checkpoint, ThreadPool& pool, const Progress& progress) {
  const model::Dimensions& dims = checkpoint.dimensions();
  Weights weights;
  Planner planner;
  for (const checkpoint::Layer& layer : checkpoint.layers()) {
    weights.layers.push_back(plan_layer(layer, dims, planner));
  }
  weights.head = planner.place({&checkpoint.head()}, 0, nullptr);
  weights.final_norm = checkpoint.final_norm();
  const Matrix& embedding = checkpoint.embedding();
  require_kernel(embedding);
  const auto offset = [&](std::uint64_t bytes) {
    return reinterpret_cast<std::size_t>(planner.place_raw(bytes));
  };
  const std::size_t codes_at = offset(embedding.weight.bytes), scales_at = offset(embedding.scales.bytes),
                    biases_at = offset(embedding.biases.bytes);

  weights.arena = HugeBuffer(planner.bytes(), "the model's weights");
  std::byte* base = weights.arena.data();
  relocate(weights, base);
  weights.embedding.matrix = embedding;
  weights.embedding.codes = base + codes_at;
  weights.embedding.scales = reinterpret_cast<const std::uint16_t*>(base + scales_at);
  weights.embedding.biases = reinterpret_cast<const std::uint16_t*>(base + biases_at);

  // Reads in file order keep a disk busy with long sequential runs.
  std::vector<PackJob>& jobs = planner.jobs();
  std::sort(jobs.begin(), jobs.end(), [](const PackJob& a, const PackJob& b) {
    return std::tuple(a.source->weight.shard, a.source->weight.offset, a.expert, a.row) <
           std::tuple(b.source->weight.shard, b.source->weight.offset, b.expert, b.row);
  });
  std::uint64_t total = embedding.stored_bytes();
  for (const PackJob& job : jobs) {
    total += static_cast<std::uint64_t>(job.rows) *
             (job.source->weight_row_bytes() + 2 * job.source->scale_row_bytes());
  }
  SharedProgress shared(progress, total);
  checkpoint.read(embedding.weight, 0, {base + codes_at, embedding.weight.bytes});
  checkpoint.read(embedding.scales, 0, {base + scales_at, embedding.scales.bytes});
  checkpoint.read(embedding.biases, 0, {base + biases_at, embedding.biases.bytes});
  shared.add(embedding.stored_bytes());

  ThreadPool loaders(std::max(pool.size(), std::min(kLoadersPerCore * pool.size(), kMostLoaders)));
  std::vector<Staging> staging(static_cast<std::size_t>(loaders.size()));
  CacheTrail trail(checkpoint, total);
  loaders.parallel_in_order(
      static_cast<std::int64_t>(jobs.size()), 1, [&](std::int64_t begin, std::int64_t end, int thread) {
        for (std::int64_t i = begin; i < end; ++i) {
          PackJob job = jobs[static_cast<std::size_t>(i)];
          job.out = base + reinterpret_cast<std::size_t>(job.out);
          shared.add(run_job(checkpoint, job, staging[static_cast<std::size_t>(thread)]));
          trail.reached(job.source->weight.shard, job.source->weight.offset);
        }
      });
  return weights;
}

}  // namespace lily::cpu
