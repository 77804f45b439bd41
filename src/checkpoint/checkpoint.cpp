// Opening a checkpoint: read the configuration, find the shards, prove the tensors, arrange them by layer.
#include "checkpoint/checkpoint.hpp"

#include <fmt/format.h>

#include <utility>

#include "checkpoint/binder.hpp"
#include "checkpoint/shard_set.hpp"
#include "lily/error.hpp"

namespace lily::checkpoint {
namespace {

// Moves bound tensors to their places; everything it asks for was proved to be there.
class Arranger {
 public:
  explicit Arranger(BoundTensors& bound) : bound_(bound) {}

  Matrix matrix(const std::string& module) {
    const auto found = bound_.matrices.find(module);
    if (found == bound_.matrices.end()) {
      throw Error(ErrorKind::internal, fmt::format("module {} was not bound", module));
    }
    return std::move(found->second);
  }

  std::vector<float> vector(const std::string& name) {
    const auto found = bound_.vectors.find(name);
    if (found == bound_.vectors.end()) {
      throw Error(ErrorKind::internal, fmt::format("tensor {} was not bound", name));
    }
    return std::move(found->second);
  }

  Layer layer(int index, model::LayerKind kind) {
    const std::string prefix = fmt::format("model.layers.{}.", index);
    Layer layer;
    layer.kind = kind;
    layer.input_norm = vector(prefix + "input_layernorm.weight");
    layer.post_attention_norm = vector(prefix + "post_attention_layernorm.weight");
    if (kind == model::LayerKind::attention) {
      layer.attention = attention(prefix + "self_attn.");
    } else {
      layer.delta_net = delta_net(prefix + "linear_attn.");
    }
    layer.moe = moe(prefix + "mlp.");
    return layer;
  }

 private:
  Attention attention(const std::string& prefix) {
    Attention attention;
    attention.q_proj = matrix(prefix + "q_proj");
    attention.k_proj = matrix(prefix + "k_proj");
    attention.v_proj = matrix(prefix + "v_proj");
    attention.o_proj = matrix(prefix + "o_proj");
    attention.q_norm = vector(prefix + "q_norm.weight");
    attention.k_norm = vector(prefix + "k_norm.weight");
    return attention;
  }

  DeltaNet delta_net(const std::string& prefix) {
    DeltaNet net;
    net.in_proj_qkv = matrix(prefix + "in_proj_qkv");
    net.in_proj_z = matrix(prefix + "in_proj_z");
    net.in_proj_b = matrix(prefix + "in_proj_b");
    net.in_proj_a = matrix(prefix + "in_proj_a");
    net.out_proj = matrix(prefix + "out_proj");
    // [channels, kernel, 1] and [channels, 1, kernel] have the same order in memory.
    net.convolution = vector(prefix + "conv1d.weight");
    net.a_log = vector(prefix + "A_log");
    net.dt_bias = vector(prefix + "dt_bias");
    net.norm = vector(prefix + "norm.weight");
    return net;
  }

  MixtureOfExperts moe(const std::string& prefix) {
    MixtureOfExperts moe;
    moe.router = matrix(prefix + "gate");
    if (bound_.layout == model::Layout::mlx) {
      moe.gate_proj = matrix(prefix + "switch_mlp.gate_proj");
      moe.up_proj = matrix(prefix + "switch_mlp.up_proj");
      moe.down_proj = matrix(prefix + "switch_mlp.down_proj");
    } else {
      // Each expert's rows: the gate half, then the up half.
      moe.gate_proj = matrix(prefix + "experts.gate_up_proj");
      moe.gate_proj.rows /= 2;
      moe.up_proj = moe.gate_proj;
      moe.up_proj.first_row = moe.up_proj.rows;
      moe.down_proj = matrix(prefix + "experts.down_proj");
    }
    moe.shared_gate_proj = matrix(prefix + "shared_expert.gate_proj");
    moe.shared_up_proj = matrix(prefix + "shared_expert.up_proj");
    moe.shared_down_proj = matrix(prefix + "shared_expert.down_proj");
    moe.shared_expert_gate = matrix(prefix + "shared_expert_gate");
    return moe;
  }

  BoundTensors& bound_;
};

}  // namespace

struct Checkpoint::Impl {
  Config config;
  ShardSet shards;
  model::Layout layout = model::Layout::mlx;
  Matrix embedding;
  Matrix head;
  std::vector<float> final_norm;
  std::vector<Layer> layers;
  Proof proof;
};

std::shared_ptr<const Checkpoint> Checkpoint::open(const std::filesystem::path& folder) {
  Config config = read_config(folder);
  ShardSet shards = ShardSet::open(folder);
  BoundTensors bound = bind_tensors(shards, config);

  Proof proof;
  proof.shards = static_cast<int>(shards.files().size());
  proof.tensors = bound.tensors;
  proof.skipped = shards.skipped();
  proof.tensor_bytes = bound.bytes;
  if (proof.skipped > 0)
    proof.notes.push_back(fmt::format("{} vision and MTP tensors skipped", proof.skipped));

  auto impl = std::make_unique<Impl>(
      Impl{std::move(config), std::move(shards), bound.layout, {}, {}, {}, {}, std::move(proof)});
  Arranger arranger(bound);
  impl->embedding = arranger.matrix("model.embed_tokens");
  impl->head = arranger.matrix("lm_head");
  impl->final_norm = arranger.vector("model.norm.weight");
  const std::vector<model::LayerKind>& kinds = impl->config.dimensions.layers;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    impl->layers.push_back(arranger.layer(static_cast<int>(i), kinds[i]));
  }
  return std::shared_ptr<const Checkpoint>(new Checkpoint(std::move(impl)));
}

Checkpoint::Checkpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Checkpoint::~Checkpoint() = default;

const Config& Checkpoint::config() const { return impl_->config; }
const model::Dimensions& Checkpoint::dimensions() const { return impl_->config.dimensions; }
model::Layout Checkpoint::layout() const { return impl_->layout; }
const Matrix& Checkpoint::embedding() const { return impl_->embedding; }
const Matrix& Checkpoint::head() const { return impl_->head; }
const std::vector<float>& Checkpoint::final_norm() const { return impl_->final_norm; }
const std::vector<Layer>& Checkpoint::layers() const { return impl_->layers; }
const Checkpoint::Proof& Checkpoint::proof() const { return impl_->proof; }

std::span<const std::byte> Checkpoint::mapped(const Extent& extent) const {
  const MappedFile& file = impl_->shards.files()[static_cast<std::size_t>(extent.shard)];
  return file.bytes().subspan(static_cast<std::size_t>(extent.offset),
                              static_cast<std::size_t>(extent.bytes));
}

void Checkpoint::read(const Extent& extent, std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > extent.bytes || out.size() > extent.bytes - offset) {
    throw Error(ErrorKind::internal, fmt::format("{} bytes at {} asked of an extent of {} bytes", out.size(),
                                                 offset, extent.bytes));
  }
  impl_->shards.files()[static_cast<std::size_t>(extent.shard)].read(extent.offset + offset, out);
}

const MappedFile& Checkpoint::file(int shard) const {
  return impl_->shards.files()[static_cast<std::size_t>(shard)];
}

void Checkpoint::forget(int shard, std::uint64_t offset, std::uint64_t length) const noexcept {
  const MappedFile& file = this->file(shard);
  if (offset < file.size()) file.forget(offset, std::min(length, file.size() - offset));
}

void Checkpoint::forget_all() const noexcept {
  for (const MappedFile& file : impl_->shards.files()) file.forget(0, file.size());
}

}  // namespace lily::checkpoint
