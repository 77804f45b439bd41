// What a checkpoint is, what it needs and what this machine has, from its headers and the formulas alone.
#include "lily/inspect.hpp"

#include <fmt/format.h>

#include "backend/cpu/select.hpp"
#include "backend/cpu/sequence.hpp"
#include "backend/decode_traffic.hpp"
#include "backend/gpu/gpu_backend.hpp"
#include "backend/open_backend.hpp"
#include "backend/reference/reference_sequence.hpp"
#include "base/thread_pool.hpp"
#include "checkpoint/checkpoint.hpp"
#include "engine/memory_plan.hpp"
#include "engine/open_model.hpp"
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

// How the backend that runs this checkpoint stores a sequence.
struct SequenceReport {
  std::uint64_t bytes = 0;
  std::uint64_t activation_bytes = 0;
  backend::StateFormat format;
};

SequenceReport sequence_report(const checkpoint::Checkpoint& checkpoint, const std::string& backend,
                               const backend::Machine& machine, int context, KvFormat kv) {
  const model::Dimensions& dims = checkpoint.dimensions();
  if (backend == "reference") {
    if (kv != KvFormat::f16) {
      throw Error(ErrorKind::unsupported,
                  "this checkpoint runs on the reference backend, which has no int8 cache");
    }
    return {.bytes = reference::ReferenceSequence::bytes(dims, context, available_cores()),
            .activation_bytes = 0,
            .format = {.kv_bytes = sizeof(float), .window_bytes = sizeof(float)}};
  }
  if (backend == "cuda" || backend == "emulator") {
    const gpu::SequenceMemory memory = gpu::sequence_memory(dims, context, kv, machine.multiprocessors);
    return {.bytes = memory.total,
            .activation_bytes = memory.activations,
            .format = {.kv_bytes = gpu::kv_value_bytes(kv), .window_bytes = sizeof(float)}};
  }
  const auto values_per_token = static_cast<double>(model::state_sizes(dims).kv_per_token);
  const auto kv_bytes = static_cast<double>(cpu::CpuSequence::kv_bytes_per_token(dims, kv));
  return {.bytes = cpu::CpuSequence::bytes(dims, context, kv),
          .activation_bytes = 0,
          .format = {.kv_bytes = kv_bytes / values_per_token, .window_bytes = sizeof(float)}};
}

MemoryPlan plan(const checkpoint::Checkpoint& checkpoint, int context, const SequenceReport& sequence,
                std::uint64_t memory) {
  MemoryPlan plan;
  plan.context = context;
  plan.weight_bytes = backend::stored_weight_bytes(checkpoint);
  plan.sequence_bytes = sequence.bytes;
  plan.activation_bytes = sequence.activation_bytes;
  plan.total_bytes = plan.weight_bytes + plan.sequence_bytes;
  plan.machine_bytes = memory;
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
  const std::string backend = engine::resolve_backend(options.backend, checkpoint->config());
  const backend::Machine machine = backend::machine_of(backend);
  const SequenceReport sequence = sequence_report(*checkpoint, backend, machine, context, options.kv);

  const std::size_t ids = TextProtocol::open(options.model)->vocabulary_size();
  engine::check_vocabulary(ids, dims);
  checkpoint::read_generation_defaults(options.model);  // only whether it can be read

  Inspection inspection;
  inspection.model_id = std::filesystem::weakly_canonical(options.model).filename().string();
  inspection.architecture = "qwen3_5_moe";
  inspection.dimensions = dimension_table(dims);
  inspection.checkpoint = report(*checkpoint);
  inspection.vocabulary_size = static_cast<int>(ids);
  inspection.memory = plan(*checkpoint, context, sequence, machine.memory);
  inspection.step = step_cost(*checkpoint, sequence.format);
  inspection.machine = {.backend = backend,
                        .device = machine.device,
                        .cores = available_cores(),
                        .instruction_set = cpu::select_kernels().name};
  return inspection;
}

}  // namespace lily
