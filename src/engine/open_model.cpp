// Opens a checkpoint folder: proof, then load.
#include "engine/open_model.hpp"

#include <fmt/format.h>

#include "backend/open_backend.hpp"
#include "lily/error.hpp"

namespace lily::engine {
namespace {

std::string activations_text(const std::string& backend, Activations activations) {
  if (backend == "reference") return "exact (fp32, sums in fp64)";
  if (backend == "emulator" || backend == "cuda") return "exact (16 bits per value)";
  switch (activations) {
    case Activations::exact:
      return "exact";
    case Activations::fast:
      return "fast";
    case Activations::automatic:
      break;
  }
  return "auto (decode exact, prefill fast)";
}

std::string kv_text(const std::string& backend, KvFormat kv) {
  if (backend == "reference") return "f32";
  return kv == KvFormat::int8 ? "int8" : "f16";
}

// The plan before loading, from the model's formulas: a lower bound, since every backend's cache takes at
// least a byte per element and all of them read the stored weights.
MemoryNeeds least_needs(const checkpoint::Checkpoint& checkpoint) {
  const model::StateSizes sizes = model::state_sizes(checkpoint.dimensions());
  MemoryNeeds needs;
  needs.weights = checkpoint.proof().tensor_bytes;
  needs.sequence = [sizes](int context) {
    return static_cast<std::uint64_t>(sizes.delta_net) * sizeof(float) +
           static_cast<std::uint64_t>(sizes.kv_per_token) * static_cast<std::uint64_t>(context);
  };
  return needs;
}

}  // namespace

std::string resolve_backend(const std::string& requested, const checkpoint::Config& config) {
  if (requested != "auto") return requested;
  return config.quantization ? "cpu" : "reference";
}

void check_options(const EngineOptions& options) {
  if (options.context < 0) {
    throw Error(
        ErrorKind::bad_input,
        fmt::format("context is {}; it must be at least 1 token, or 0 for the default", options.context));
  }
  if (options.threads < 0 || options.threads > kMaxThreads) {
    throw Error(ErrorKind::bad_input,
                fmt::format("threads is {}; it must be from 1 to {}, or 0 for all cores", options.threads,
                            kMaxThreads));
  }
  if (options.max_queue < 0) {
    throw Error(ErrorKind::bad_input,
                fmt::format("max_queue is {}; it must be at least 0", options.max_queue));
  }
}

void check_vocabulary(std::size_t tokenizer_ids, const model::Dimensions& dims) {
  if (tokenizer_ids <= static_cast<std::size_t>(dims.vocabulary)) return;
  throw Error(ErrorKind::bad_input, fmt::format("the tokenizer has ids up to {}; the model has {} rows",
                                                tokenizer_ids - 1, dims.vocabulary));
}

ProvedModel prove_model(const EngineOptions& options, int context) {
  check_options(options);
  ProvedModel proved;
  proved.checkpoint = checkpoint::Checkpoint::open(options.model);
  proved.backend = resolve_backend(options.backend, proved.checkpoint->config());
  proved.context = resolve_context(proved.checkpoint->dimensions(), context);
  check_plan(least_needs(*proved.checkpoint), proved.checkpoint->dimensions(), proved.context,
             options.memory_limit > 0 ? options.memory_limit : backend::machine_of(proved.backend).memory);
  return proved;
}

LoadedModel load_model(const EngineOptions& options, const ProvedModel& proved) {
  LoadedModel model;
  model.backend = backend::open_backend(proved.backend, proved.checkpoint,
                                        {.threads = options.threads,
                                         .activations = options.activations,
                                         .kv = options.kv,
                                         .progress = options.progress});
  check_plan(memory_needs(*model.backend), proved.checkpoint->dimensions(), proved.context,
             options.memory_limit > 0 ? options.memory_limit : model.backend->memory());
  model.activations = activations_text(proved.backend, options.activations);
  model.kv = kv_text(proved.backend, options.kv);
  return model;
}

MemoryNeeds memory_needs(const backend::Backend& backend) {
  MemoryNeeds needs;
  needs.weights = backend.weight_bytes();
  needs.sequence = [&backend](int context) { return backend.sequence_bytes(context); };
  const auto logits = static_cast<std::uint64_t>(backend.dimensions().vocabulary) * sizeof(float);
  needs.scratch = backend.scratch_bytes() + logits;
  return needs;
}

}  // namespace lily::engine
