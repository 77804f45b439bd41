// The engine: one backend, one sequence, requests in turn.
#include "lily/engine.hpp"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <random>

#include "engine/assemble.hpp"
#include "engine/generation_loop.hpp"
#include "engine/memory_plan.hpp"
#include "engine/open_model.hpp"
#include "engine/prepare_request.hpp"
#include "engine/request_queue.hpp"
#include "engine/token_ranges.hpp"
#include "lily/error.hpp"
#include "text/text_protocol.hpp"

namespace lily::engine {
namespace {

using Clock = std::chrono::steady_clock;

// Two tokens end a turn of this model family; a generation_config.json that lists only one is common.
constexpr std::array kEndLiterals = {"<|im_end|>", "<|endoftext|>"};

class EngineImpl final : public Engine {
 public:
  EngineImpl(EngineParts parts, const EngineOptions& options);

  const EngineInfo& info() const noexcept override { return info_; }
  const TextProtocol& text() const noexcept override { return *parts_.text; }

  std::vector<TokenId> check(const GenerationRequest& request) const override {
    return prepare_request(request, rules()).prompt;
  }

  GenerationResult generate(const GenerationRequest& request, const GenerationCallbacks& callbacks,
                            std::stop_token stop) override;

 private:
  RequestRules rules() const { return {*parts_.text, parts_.defaults, info_.context, allowed_, stop_ids_}; }

  EngineParts parts_;
  EngineInfo info_;
  TokenRanges allowed_;
  std::vector<TokenId> stop_ids_;
  RequestQueue queue_;
  // Made once for the full context and reset for every request: serving allocates nothing that grows with it.
  std::unique_ptr<backend::Sequence> sequence_;
  std::vector<float> logits_;
  const std::uint32_t run_id_ = std::random_device{}();
  std::atomic<std::uint64_t> requests_{0};
};

TokenRanges tokens_with_text(const EngineParts& parts) {
  check_vocabulary(parts.tokenizer->size(), parts.backend->dimensions());
  return {static_cast<TokenId>(parts.tokenizer->size()),
          [&](TokenId id) { return !parts.tokenizer->bytes(id).empty(); }};
}

std::vector<TokenId> end_tokens(const EngineParts& parts) {
  std::vector<TokenId> ids(parts.defaults.eos_token_ids.begin(), parts.defaults.eos_token_ids.end());
  for (const char* literal : kEndLiterals) {
    if (const auto id = parts.tokenizer->control_id(literal)) ids.push_back(*id);
  }
  return ids;
}

EngineImpl::EngineImpl(EngineParts parts, const EngineOptions& options)
    : parts_(std::move(parts)),
      allowed_(tokens_with_text(parts_)),
      stop_ids_(end_tokens(parts_)),
      queue_(options.max_queue) {
  const model::Dimensions& dims = parts_.backend->dimensions();
  info_.model_id = std::move(parts_.model_id);
  info_.backend = parts_.backend->description();
  info_.context = resolve_context(dims, options.context);
  check_plan(memory_needs(*parts_.backend), dims, info_.context,
             options.memory_limit > 0 ? options.memory_limit : parts_.backend->memory());
  info_.vocabulary_size = static_cast<int>(parts_.tokenizer->size());
  info_.weight_bytes = parts_.backend->weight_bytes();
  info_.sequence_bytes = parts_.backend->sequence_bytes(info_.context);
  info_.activations = parts_.activations;
  info_.kv = parts_.kv;
  sequence_ = parts_.backend->new_sequence(info_.context);
  logits_.resize(static_cast<std::size_t>(dims.vocabulary));
}

GenerationResult EngineImpl::generate(const GenerationRequest& request, const GenerationCallbacks& callbacks,
                                      std::stop_token stop) {
  PreparedRequest prepared = prepare_request(request, rules());
  prepared.parser.call_id_prefix = fmt::format("call_{:08x}_{}_", run_id_, ++requests_);
  const auto arrival = Clock::now();
  const RequestQueue::Turn turn = queue_.enter(stop);
  const auto begin = Clock::now();
  GenerationResult result;
  if (turn) {
    sequence_->reset();
    result = generate_answer({*parts_.backend, *parts_.tokenizer, allowed_, stop_ids_}, *sequence_, logits_,
                             std::move(prepared), callbacks, stop);
  } else {
    result.answer.finish_reason = FinishReason::cancelled;
    result.usage.prompt_tokens = static_cast<int>(prepared.prompt.size());
    result.effective = prepared.sampling.as_options();
  }
  result.timing.queued = begin - arrival;
  return result;
}

}  // namespace

std::unique_ptr<Engine> make_engine(EngineParts parts, const EngineOptions& options) {
  check_options(options);
  return std::make_unique<EngineImpl>(std::move(parts), options);
}

}  // namespace lily::engine

namespace lily {
namespace {

// The folder's name, also when the path ends in a slash or is ".".
std::string model_id(const std::filesystem::path& folder) {
  const std::filesystem::path path = std::filesystem::absolute(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

}  // namespace

std::unique_ptr<Engine> Engine::open(const EngineOptions& options) {
  const engine::ProvedModel proved = engine::prove_model(options, options.context);
  engine::EngineParts parts;
  parts.tokenizer = text::Tokenizer::load_checkpoint(options.model);
  parts.text = text::open_protocol(options.model, parts.tokenizer);
  parts.defaults = checkpoint::read_generation_defaults(options.model);
  engine::check_vocabulary(parts.tokenizer->size(), proved.checkpoint->dimensions());
  parts.model_id = model_id(options.model);
  engine::LoadedModel model = engine::load_model(options, proved);
  parts.backend = std::move(model.backend);
  parts.activations = std::move(model.activations);
  parts.kv = std::move(model.kv);
  return engine::make_engine(std::move(parts), options);
}

}  // namespace lily
