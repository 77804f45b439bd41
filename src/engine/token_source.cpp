// Where the tokens of an answer come from.
#include "engine/token_source.hpp"

#include "engine/random_stream.hpp"
#include "engine/sampler.hpp"
#include "lily/error.hpp"

namespace lily::engine {
namespace {

class SampledTokens final : public backend::TokenStream {
 public:
  SampledTokens(backend::Backend& backend, backend::Sequence& sequence, std::span<float> logits,
                const TokenChoice& choice, int limit)
      : backend_(backend),
        sequence_(sequence),
        logits_(logits),
        sampler_(choice.settings, choice.allowed, choice.prompt, choice.is_control),
        left_(limit) {}

  TokenId next() override {
    if (left_-- <= 0) throw Error(ErrorKind::internal, "a token was asked for beyond the answer's limit");
    if (last_) {
      sampler_.accept(*last_);
      backend_.decode(sequence_, *last_, logits_);
    }
    last_ = sampler_.choose(logits_);
    return *last_;
  }

 private:
  backend::Backend& backend_;
  backend::Sequence& sequence_;
  std::span<float> logits_;
  Sampler sampler_;
  int left_;
  std::optional<TokenId> last_;
};

backend::SamplingRules rules_of(const TokenChoice& choice) {
  const SamplingSettings& settings = choice.settings;
  backend::SamplingRules rules;
  rules.temperature = settings.temperature;
  rules.top_k = settings.top_k < choice.allowed.count() ? settings.top_k : 0;
  rules.top_p = settings.top_p;
  rules.min_p = settings.min_p;
  rules.repetition_penalty = settings.repetition_penalty;
  rules.presence_penalty = settings.presence_penalty;
  rules.frequency_penalty = settings.frequency_penalty;
  rules.random_key = RandomStream(settings.seed).key();
  rules.bias.assign(settings.logit_bias.begin(), settings.logit_bias.end());
  for (const TokenRange& range : choice.allowed) rules.allowed.emplace_back(range.begin, range.end);
  if (settings.repetition_penalty != 1) {
    rules.prompt = choice.prompt;
    for (const TokenRange& range : choice.allowed) {
      for (TokenId id = range.begin; id < range.end; ++id) {
        if (choice.is_control(id)) rules.exempt.push_back(id);
      }
    }
  }
  return rules;
}

}  // namespace

std::unique_ptr<backend::TokenStream> open_tokens(backend::Backend& backend, backend::Sequence& sequence,
                                                  std::span<float> logits, const TokenChoice& choice,
                                                  int limit) {
  auto stream = backend.stream(sequence, rules_of(choice), limit);
  if (stream) return stream;
  return std::make_unique<SampledTokens>(backend, sequence, logits, choice, limit);
}

}  // namespace lily::engine
