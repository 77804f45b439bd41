// Planning: matrices in the order of use, their tensors cut into runs of rows.
#include "backend/cpu/weight_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <tuple>

#include "lily/error.hpp"

namespace lily::cpu {

namespace {

using checkpoint::Extent;
using checkpoint::Matrix;
using checkpoint::MatrixFormat;

constexpr int pad_to_lanes(std::int64_t rows) {
  return static_cast<int>((rows + kLanes - 1) / kLanes * kLanes);
}
// A run's bytes, at most those of a small read.
constexpr std::uint64_t kRunBytes = 256 << 10;

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

// Places matrices in the arena; pointers are offsets until the arena exists.
class Planner {
 public:
  explicit Planner(WeightPlan& plan) : plan_(plan) {}

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

  // A tensor as it is stored.
  std::byte* place_copy(const Extent& extent) {
    const std::size_t begin = take(extent.bytes);
    for (std::uint64_t done = 0; done < extent.bytes; done += kRunBytes) {
      TensorRun run;
      run.shard = extent.shard;
      run.offset = extent.offset + done;
      run.bytes = std::min(kRunBytes, extent.bytes - done);
      run.out = begin + done;
      plan_.runs.push_back(run);
    }
    return at(begin);
  }

 private:
  static std::byte* at(std::size_t offset) { return reinterpret_cast<std::byte*>(offset); }

  std::size_t take(std::uint64_t bytes) {
    const std::size_t begin = plan_.arena_bytes;
    plan_.arena_bytes += (bytes + 63) / 64 * 64;
    return begin;
  }

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
    const std::size_t begin = take(packed.bytes());
    packed.data = at(begin);
    std::size_t index = 0;
    for (const Matrix* part : parts) {
      const auto base = static_cast<std::size_t>(first_rows[index++]);
      TensorRun run;
      run.matrix = part;
      run.first_group = first_group;
      run.groups = groups;
      run.planes = packed.planes;
      const auto add = [&](Content content, const Extent& tensor, std::uint64_t row_bytes) {
        run.content = content;
        add_runs(run, tensor, row_bytes, expert, begin + base / kLanes * packed.block_bytes());
      };
      add(Content::codes, part->weight, part->weight_row_bytes());
      add(Content::scales, part->scales, part->scale_row_bytes());
      add(Content::biases, part->biases, part->scale_row_bytes());
    }
    if (rows_of_parts != nullptr) *rows_of_parts = first_rows;
    return packed;
  }

  // All rows of an expert, whose blocks begin at `out`, in whole blocks.
  void add_runs(TensorRun run, const Extent& tensor, std::uint64_t row_bytes, int expert, std::size_t out) {
    const std::size_t block_bytes = PackedMatrix{nullptr, kLanes, run.groups, run.planes}.block_bytes();
    const auto blocks = static_cast<std::int64_t>(kRunBytes / (row_bytes * kLanes));
    const std::int64_t rows = std::max<std::int64_t>(blocks, 1) * kLanes;
    run.shard = tensor.shard;
    for (std::int64_t row = 0; row < run.matrix->rows; row += rows) {
      run.rows = static_cast<int>(std::min(rows, run.matrix->rows - row));
      run.offset = tensor.offset + static_cast<std::uint64_t>(run.matrix->row_index(expert, row)) * row_bytes;
      run.bytes = static_cast<std::uint64_t>(run.rows) * row_bytes;
      run.out = out + static_cast<std::size_t>(row / kLanes) * block_bytes;
      plan_.runs.push_back(run);
    }
  }

  WeightPlan& plan_;
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

void relocate(PackedMatrix& matrix, std::byte* base) {
  matrix.data = base + reinterpret_cast<std::size_t>(matrix.data);
}

template <class T>
void relocate(const T*& place, std::byte* base) {
  place = reinterpret_cast<const T*>(base + reinterpret_cast<std::size_t>(place));
}

}  // namespace

WeightPlan plan_weights(const checkpoint::Checkpoint& checkpoint) {
  WeightPlan plan;
  Planner planner(plan);
  Weights& weights = plan.weights;
  for (const checkpoint::Layer& layer : checkpoint.layers()) {
    weights.layers.push_back(plan_layer(layer, checkpoint.dimensions(), planner));
  }
  weights.head = planner.place({&checkpoint.head()}, 0, nullptr);
  weights.final_norm = checkpoint.final_norm();
  const Matrix& embedding = checkpoint.embedding();
  require_kernel(embedding);
  weights.embedding.matrix = embedding;
  weights.embedding.codes = planner.place_copy(embedding.weight);
  weights.embedding.scales = reinterpret_cast<const std::uint16_t*>(planner.place_copy(embedding.scales));
  weights.embedding.biases = reinterpret_cast<const std::uint16_t*>(planner.place_copy(embedding.biases));
  return plan;
}

void WeightPlan::allocate() {
  weights.arena = HugeBuffer(arena_bytes, "the model's weights");
  std::byte* const base = weights.arena.data();
  for (LayerWeights& layer : weights.layers) {
    for (PackedMatrix* matrix : {&layer.mixer_in, &layer.router}) relocate(*matrix, base);
    for (PackedMatrix& matrix : layer.mixer_out) relocate(matrix, base);
    for (PackedMatrix& matrix : layer.gate_up) relocate(matrix, base);
    for (PackedMatrix& matrix : layer.down) relocate(matrix, base);
  }
  relocate(weights.head, base);
  relocate(weights.embedding.codes, base);
  relocate(weights.embedding.scales, base);
  relocate(weights.embedding.biases, base);
}

}  // namespace lily::cpu
