// Loading: plan the arena, list the reads, sort them by file position, then read, repack and upload.
#include "backend/gpu/weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>

#include "backend/gpu/limits.hpp"
#include "backend/gpu/weight_blocks.hpp"
#include "backend/gpu/weight_guard.hpp"
#include "lily/error.hpp"

namespace lily::gpu {
namespace {

using checkpoint::Checkpoint;
using checkpoint::Matrix;

constexpr std::int64_t kRowsPerJob = 512;
constexpr std::size_t kAlignment = 256;
constexpr int kTileRows = WeightBlock::rows;

int bits_of(const Matrix& matrix) { return matrix.format == checkpoint::MatrixFormat::affine4 ? 4 : 8; }

// One read-and-pack: rows [row, row + rows) of an expert become consecutive tiles at `offset`.
struct PackJob {
  const Matrix* source = nullptr;
  int expert = 0;
  std::int64_t row = 0;
  std::int64_t rows = 0;
  AffineFormat format;
  std::size_t offset = 0;
  std::size_t matrix = 0;  // where the whole matrix begins
};

// Bytes as they are, at `offset`.
struct Copy {
  std::vector<std::byte> bytes;
  std::size_t offset = 0;
};

// Places everything in the arena. Pointers are made from offsets at once, since the arena's size alone is
// open: places are kept as offsets from `kBase` until relocate().
class Planner {
 public:
  // A matrix of the rows of `parts` below each other, experts of a part in turn; first rows go to
  // `rows_of_parts`.
  DeviceMatrix place(std::initializer_list<const Matrix*> parts, int planes,
                     std::vector<uint>* rows_of_parts = nullptr) {
    DeviceMatrix placed;
    placed.inputs = static_cast<uint>((*parts.begin())->columns);
    placed.planes = static_cast<uint>(planes);
    const std::size_t begin = bytes_;
    for (const Matrix* part : parts) {
      require_kernel(*part);
      if (rows_of_parts != nullptr) rows_of_parts->push_back(placed.padded_rows());
      const AffineFormat format{static_cast<int>(part->columns), bits_of(*part), part->group_size, planes};
      for (int expert = 0; expert < part->experts; ++expert) {
        for (std::int64_t row = 0; row < part->rows; row += kRowsPerJob) {
          const std::int64_t rows = std::min(kRowsPerJob, part->rows - row);
          jobs_.push_back({part, expert, row, rows, format, bytes_, begin});
          const std::int64_t tiles = (rows + kTileRows - 1) / kTileRows;
          bytes_ += static_cast<std::size_t>(tiles) * format.tile_bytes();
          placed.tiles += static_cast<uint>(tiles);
        }
      }
    }
    placed.blocks = at<uchar>(begin);
    align();
    return placed;
  }

  template <class T>
  const T* place(std::span<const T> values) {
    const auto bytes = std::as_bytes(values);
    return reinterpret_cast<const T*>(at<std::byte>(place_copy({bytes.begin(), bytes.end()})));
  }
  const float* place(const std::vector<float>& values) { return place(std::span<const float>(values)); }

  std::size_t place_copy(std::vector<std::byte> bytes) {
    const std::size_t offset = bytes_;
    bytes_ += bytes.size();
    copies_.push_back({std::move(bytes), offset});
    align();
    return offset;
  }

  template <class T>
  static const T* at(std::size_t offset) {
    return reinterpret_cast<const T*>(offset);
  }

  std::size_t bytes() const { return bytes_; }
  std::vector<PackJob>& jobs() { return jobs_; }
  const std::vector<Copy>& copies() const { return copies_; }

 private:
  void align() { bytes_ = (bytes_ + kAlignment - 1) / kAlignment * kAlignment; }

  std::size_t bytes_ = kAlignment;  // no place is a null pointer
  std::vector<PackJob> jobs_;
  std::vector<Copy> copies_;
};

int planes_of(std::initializer_list<const Matrix*> parts) {
  int planes = 1;
  for (const Matrix* part : parts) planes = std::max(planes, bits_of(*part) / 4);
  return planes;
}

LayerWeights plan_layer(const checkpoint::Layer& layer, const model::Dimensions& dims, Planner& planner) {
  LayerWeights out;
  out.kind = layer.kind;
  out.input_norm = planner.place(layer.input_norm);
  out.post_attention_norm = planner.place(layer.post_attention_norm);
  std::vector<uint> rows;
  const auto stack = [&](std::initializer_list<const Matrix*> parts) {
    rows.clear();
    return planner.place(parts, planes_of(parts), &rows);
  };
  if (layer.delta_net) {
    const checkpoint::DeltaNet& net = *layer.delta_net;
    out.mixer_in = stack({&net.in_proj_qkv, &net.in_proj_z, &net.in_proj_b, &net.in_proj_a});
    std::tie(out.z_row, out.b_row, out.a_row) = std::tuple(rows[1], rows[2], rows[3]);
    out.mixer_out = stack({&net.out_proj});
    const auto channels = static_cast<std::size_t>(dims.conv_channels()),
               taps = static_cast<std::size_t>(dims.conv_kernel);
    std::vector<float> convolution(net.convolution.size()), rate;
    for (std::size_t c = 0; c < channels; ++c) {
      for (std::size_t m = 0; m < taps; ++m) convolution[m * channels + c] = net.convolution[c * taps + m];
    }
    for (const float a : net.a_log) rate.push_back(-std::exp(a));
    out.convolution = planner.place(convolution);
    out.rate = planner.place(rate);
    out.dt_bias = planner.place(net.dt_bias);
    out.head_norm = planner.place(net.norm);
  } else {
    const checkpoint::Attention& attention = *layer.attention;
    out.mixer_in = stack({&attention.q_proj, &attention.k_proj, &attention.v_proj});
    std::tie(out.k_row, out.v_row) = std::tuple(rows[1], rows[2]);
    out.mixer_out = stack({&attention.o_proj});
    out.q_norm = planner.place(attention.q_norm);
    out.k_norm = planner.place(attention.k_norm);
  }
  const checkpoint::MixtureOfExperts& moe = layer.moe;
  out.router = stack({&moe.router, &moe.shared_expert_gate});
  out.gate_row = rows[1];
  const int in_planes = planes_of({&moe.gate_proj, &moe.up_proj, &moe.shared_gate_proj, &moe.shared_up_proj});
  if (constexpr uint kMost = ExpertGateUp::tile_blocks / 2;
      static_cast<uint>(AffineFormat{dims.hidden_size, 4, 64, in_planes}.parts()) > kMost) {
    throw Error(ErrorKind::unsupported,
                fmt::format("{}: {} inputs in {} bits; the GPU kernels for experts take up to {} of them",
                            moe.gate_proj.name, dims.hidden_size, 4 * in_planes,
                            kMost * WeightBlock::inputs / static_cast<uint>(in_planes)));
  }
  const int down_planes = planes_of({&moe.down_proj, &moe.shared_down_proj});
  out.gate = planner.place({&moe.gate_proj}, in_planes);
  out.up = planner.place({&moe.up_proj}, in_planes);
  out.down = planner.place({&moe.down_proj}, down_planes);
  out.shared_gate = planner.place({&moe.shared_gate_proj}, in_planes);
  out.shared_up = planner.place({&moe.shared_up_proj}, in_planes);
  out.shared_down = planner.place({&moe.shared_down_proj}, down_planes);
  return out;
}

// Rotations in turns per position: theta^(-j / 32) / (2 pi) as a fraction of 2^64.
std::vector<ulong> rotation_turns(const model::Dimensions& dims) {
  constexpr long double kTwoPi = 6.283185307179586476925286766559L;
  std::vector<ulong> turns;
  const int half_dims = dims.rotary_dim / 2;
  for (int j = 0; j < half_dims; ++j) {
    const long double power = -static_cast<long double>(j) / half_dims;
    const long double fraction = std::pow(static_cast<long double>(dims.rope_theta), power) / kTwoPi;
    turns.push_back(static_cast<ulong>(std::ldexp(fraction, 64)));
  }
  return turns;
}

// Turns the places of the planner into device addresses, and gives matrices their guards.
class Relocation {
 public:
  // `largest`: the largest weight of the matrix that begins at an offset.
  Relocation(const DeviceMemory& arena, const std::map<std::size_t, float>& largest)
      : base_(arena.as<std::byte>()), largest_(largest) {}

  template <class T>
  void operator()(const T*& place) const {
    if (place != nullptr) place = reinterpret_cast<const T*>(base_ + reinterpret_cast<std::size_t>(place));
  }
  void operator()(DeviceMatrix& matrix) const {
    matrix.guard = weight_guard(largest_.at(reinterpret_cast<std::size_t>(matrix.blocks)));
    (*this)(matrix.blocks);
  }
  void operator()(Weights& weights) const {
    for (LayerWeights& l : weights.layers) {
      for (const float** place : {&l.input_norm, &l.post_attention_norm, &l.convolution, &l.rate, &l.dt_bias,
                                  &l.head_norm, &l.q_norm, &l.k_norm}) {
        (*this)(*place);
      }
      for (DeviceMatrix* matrix : {&l.mixer_in, &l.mixer_out, &l.router, &l.gate, &l.up, &l.down,
                                   &l.shared_gate, &l.shared_up, &l.shared_down}) {
        (*this)(*matrix);
      }
    }
    (*this)(weights.embedding.codes);
    (*this)(weights.embedding.scales);
    (*this)(weights.embedding.biases);
    (*this)(weights.head);
    (*this)(weights.final_norm);
    (*this)(weights.turns);
  }

 private:
  std::byte* base_;
  const std::map<std::size_t, float>& largest_;
};

// A thread's memory for one job.
struct Staging {
  std::vector<std::uint32_t> codes;
  std::vector<std::uint16_t> scales, biases;
};

std::uint64_t job_bytes(const PackJob& job) {
  return static_cast<std::uint64_t>(job.rows) *
         (job.source->weight_row_bytes() + 2 * job.source->scale_row_bytes());
}

std::size_t packed_bytes(const PackJob& job) {
  return static_cast<std::size_t>((job.rows + kTileRows - 1) / kTileRows) * job.format.tile_bytes();
}

// Writes the tiles of a job to `packed`; returns its largest weight.
float read_and_pack(const Checkpoint& checkpoint, const PackJob& job, Staging& staging,
                    std::span<std::byte> packed) {
  const Matrix& matrix = *job.source;
  const std::uint64_t code_bytes = matrix.weight_row_bytes(), scale_bytes = matrix.scale_row_bytes();
  const auto first = static_cast<std::uint64_t>(matrix.row_index(job.expert, job.row));
  const auto rows = static_cast<std::size_t>(job.rows);
  const std::size_t words = code_bytes / sizeof(std::uint32_t), groups = scale_bytes / sizeof(std::uint16_t);
  staging.codes.resize(rows * words);
  staging.scales.resize(rows * groups);
  staging.biases.resize(rows * groups);
  checkpoint.read(matrix.weight, first * code_bytes, std::as_writable_bytes(std::span(staging.codes)));
  checkpoint.read(matrix.scales, first * scale_bytes, std::as_writable_bytes(std::span(staging.scales)));
  checkpoint.read(matrix.biases, first * scale_bytes, std::as_writable_bytes(std::span(staging.biases)));

  std::vector<AffineRow> tile_rows;
  for (std::size_t first_row = 0; first_row < rows; first_row += kTileRows) {
    tile_rows.clear();
    for (std::size_t r = first_row; r < std::min(rows, first_row + kTileRows); ++r) {
      tile_rows.push_back({staging.codes.data() + r * words, staging.scales.data() + r * groups,
                           staging.biases.data() + r * groups});
    }
    pack_tile(tile_rows, job.format, packed.data() + first_row / kTileRows * job.format.tile_bytes());
  }
  return largest_weight(staging.scales, staging.biases, job.format.bits);
}

// Bytes of a tensor, read at once.
std::vector<std::byte> whole(const Checkpoint& checkpoint, const checkpoint::Extent& extent) {
  std::vector<std::byte> bytes(extent.bytes);
  checkpoint.read(extent, 0, bytes);
  return bytes;
}

}  // namespace

Weights load_weights(const Checkpoint& checkpoint, Device& device, ThreadPool& pool,
                     const Progress& progress) {
  const model::Dimensions& dims = checkpoint.dimensions();
  require_kernels(dims);
  Weights weights;
  Planner planner;
  for (const checkpoint::Layer& layer : checkpoint.layers()) {
    weights.layers.push_back(plan_layer(layer, dims, planner));
  }
  weights.head = planner.place({&checkpoint.head()}, planes_of({&checkpoint.head()}));
  weights.final_norm = planner.place(checkpoint.final_norm());
  weights.turns = planner.place(std::span<const ulong>(rotation_turns(dims)));
  const Matrix& embedding = checkpoint.embedding();
  require_kernel(embedding);
  weights.embedding.codes = Planner::at<uint>(planner.place_copy(whole(checkpoint, embedding.weight)));
  weights.embedding.scales = Planner::at<bfloat>(planner.place_copy(whole(checkpoint, embedding.scales)));
  weights.embedding.biases = Planner::at<bfloat>(planner.place_copy(whole(checkpoint, embedding.biases)));
  weights.embedding.bits = static_cast<uint>(bits_of(embedding));
  weights.embedding.group_size = static_cast<uint>(embedding.group_size);

  weights.arena = device.allocate(planner.bytes(), "the model's weights");
  for (const Copy& copy : planner.copies())
    device.write(weights.arena.as<std::byte>(copy.offset), copy.bytes);

  // Reads in file order keep a disk busy with long sequential runs.
  std::vector<PackJob>& jobs = planner.jobs();
  std::sort(jobs.begin(), jobs.end(), [](const PackJob& a, const PackJob& b) {
    return std::tuple(a.source->weight.shard, a.source->weight.offset, a.expert, a.row) <
           std::tuple(b.source->weight.shard, b.source->weight.offset, b.expert, b.row);
  });
  std::uint64_t total = 0, done = 0;
  std::map<std::size_t, float> largest;
  for (const PackJob& job : jobs) total += job_bytes(job);
  std::mutex mutex;
  std::vector<Staging> staging(static_cast<std::size_t>(pool.size()));
  const std::unique_ptr<Upload> upload = device.upload(pool.size());
  pool.parallel_in_order(
      static_cast<std::int64_t>(jobs.size()), 1, [&](std::int64_t begin, std::int64_t end, int thread) {
        for (std::int64_t i = begin; i < end; ++i) {
          const PackJob& job = jobs[static_cast<std::size_t>(i)];
          const float top = read_and_pack(checkpoint, job, staging[static_cast<std::size_t>(thread)],
                                          upload->staging(thread, packed_bytes(job)));
          upload->send(thread, weights.arena.as<std::byte>(job.offset));
          const std::lock_guard lock(mutex);
          float& known = largest[job.matrix];
          known = std::max(known, top);
          done += job_bytes(job);
          if (progress) progress("loading weights", done, total, "bytes");
        }
      });
  upload->finish();
  Relocation(weights.arena, largest)(weights);
  return weights;
}

}  // namespace lily::gpu
