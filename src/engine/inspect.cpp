// What a checkpoint is, what it needs and what this machine has, from its headers and the formulas alone.
#include "lily/inspect.hpp"

#include <fmt/format.h>

#include <cmath>

#include "backend/cpu/select.hpp"
#include "backend/decode_traffic.hpp"
#include "base/thread_pool.hpp"
#include "checkpoint/checkpoint.hpp"
#include "engine/memory_plan.hpp"
#include "lily/error.hpp"
#include "lily/text.hpp"

namespace lily {
namespace {

std::vector<std::pair<std::string, std::int64_t>> dimension_table(const model::Dimensions& dims) {
  return {
      {"hidden_size", dims.hidden_size},
      {"num_hidden_layers", dims.layer_count()},
      {"linear_attention_layers", dims.delta_net_layers()},
      {"full_attention_layers", dims.attention_layers()},
      {"vocab_size", dims.vocabulary},
      {"max_position_embeddings", dims.max_positions},
      {"num_attention_heads", dims.attention_heads},
      {"num_key_value_heads", dims.kv_heads},
      {"head_dim", dims.head_dim},
      {"rotary_dim", dims.rotary_dim},
      {"linear_num_key_heads", dims.key_heads},
      {"linear_num_value_heads", dims.value_heads},
      {"linear_key_head_dim", dims.key_dim},
      {"linear_value_head_dim", dims.value_dim},
      {"linear_conv_kernel_dim", dims.conv_kernel},
      {"num_experts", dims.experts},
      {"num_experts_per_tok", dims.experts_per_token},
      {"moe_intermediate_size", dims.expert_size},
      {"shared_expert_intermediate_size", dims.shared_expert_size},
  };
}

std::string describe(const std::optional<checkpoint::QuantizationConfig>& quantization) {
  if (!quantization) return "none";
  const std::size_t overrides = quantization->overrides.size();
  return fmt::format("{} bit, groups of {}{}", quantization->global.bits, quantization->global.group_size,
                     overrides > 0 ? fmt::format(" ({} modules differ)", overrides) : "");
}

CheckpointReport report(const checkpoint::Checkpoint& checkpoint) {
  const checkpoint::Checkpoint::Proof& proof = checkpoint.proof();
  return {
      .layout = checkpoint.layout() == model::Layout::mlx ? "mlx" : "hugging_face",
      .quantization = describe(checkpoint.config().quantization),
      .shards = proof.shards,
      .tensors = proof.tensors,
      .skipped_tensors = proof.skipped,
      .tensor_bytes = proof.tensor_bytes,
      .notes = proof.notes,
  };
}

// An 8-bit cache has an fp32 scale per 64 values.
backend::StateFormat state_format(KvFormat kv) {
  return {.kv_bytes = kv == KvFormat::int8 ? 1.0 + 4.0 / 64 : 2.0};
}

MemoryPlan plan(const checkpoint::Checkpoint& checkpoint, int context, const backend::StateFormat& format) {
  const model::StateSizes sizes = model::state_sizes(checkpoint.dimensions());
  MemoryPlan plan;
  plan.context = context;
  plan.weight_bytes = backend::stored_weight_bytes(checkpoint);
  plan.sequence_bytes = static_cast<std::uint64_t>(
      std::ceil(sizeof(float) * static_cast<double>(sizes.delta_net) +
                format.window_bytes * static_cast<double>(sizes.conv_window) +
                format.kv_bytes * static_cast<double>(sizes.kv_per_token) * static_cast<double>(context)));
  plan.total_bytes = plan.weight_bytes + plan.sequence_bytes;
  plan.machine_bytes = engine::machine_memory();
  plan.fits = plan.total_bytes <= plan.machine_bytes;
  return plan;
}

StepCost step_cost(const checkpoint::Checkpoint& checkpoint, const backend::StateFormat& format) {
  const backend::DecodeTraffic traffic = backend::decode_traffic(checkpoint, format, 0);
  return {
      .weight_bytes = traffic.weight_bytes,
      .state_bytes = traffic.state_bytes,
      .fixed_bytes = traffic.weight_bytes + traffic.state_bytes,
      .bytes_per_cached_token = traffic.kv_bytes,
  };
}

}  // namespace

Inspection inspect(const InspectOptions& options) {
  const auto checkpoint = checkpoint::Checkpoint::open(options.model);
  const model::Dimensions& dims = checkpoint->dimensions();
  const int context = engine::resolve_context(dims, options.context);
  if (context > dims.max_positions) {
    throw Error(ErrorKind::too_long, fmt::format("a context of {} tokens is beyond the model's {} positions",
                                                 context, dims.max_positions));
  }
  const backend::StateFormat format = state_format(options.kv);

  Inspection inspection;
  inspection.model_id = std::filesystem::weakly_canonical(options.model).filename().string();
  inspection.architecture = "qwen3_5_moe";
  inspection.dimensions = dimension_table(dims);
  inspection.checkpoint = report(*checkpoint);
  inspection.vocabulary_size = static_cast<int>(TextProtocol::open(options.model)->vocabulary_size());
  inspection.memory = plan(*checkpoint, context, format);
  inspection.step = step_cost(*checkpoint, format);
  inspection.machine = {.cores = available_cores(), .instruction_set = cpu::select_kernels().name};
  return inspection;
}

}  // namespace lily
