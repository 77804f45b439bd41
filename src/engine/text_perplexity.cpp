// How well a checkpoint predicts a text, alone or beside a second one.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/mapped_file.hpp"
#include "engine/fidelity.hpp"
#include "engine/open_model.hpp"
#include "lily/error.hpp"
#include "lily/measure.hpp"
#include "lily/text.hpp"

namespace lily {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;  // what the tokenizer takes at once

// Tokens whose logits are held while the second checkpoint reads them: 127 MB with 248,320 rows.
constexpr std::size_t kStepTokens = 128;

// A loaded checkpoint and a sequence for one window.
class Reader {
 public:
  Reader(const EngineOptions& options, const engine::ProvedModel& proved, int window)
      : model_(engine::load_model(options, proved)),
        sequence_(model_.backend->new_sequence(window)),
        last_(static_cast<std::size_t>(model_.backend->dimensions().vocabulary)) {}

  void reset() { sequence_->reset(); }

  void read(std::span<const TokenId> ids, const backend::LogitsSink& use) {
    model_.backend->prefill(*sequence_, ids, last_, {.every_position = use});
  }

 private:
  engine::LoadedModel model_;
  std::unique_ptr<backend::Sequence> sequence_;
  std::vector<float> last_;
};

class TextEvaluation {
 public:
  TextEvaluation(Reader& ours, Reader* second, std::size_t width)
      : ours_(ours), second_(second), held_(second == nullptr ? 0 : kStepTokens * width), width_(width) {}

  void window(std::span<const TokenId> ids, const std::function<void(std::size_t)>& progress) {
    ours_.reset();
    if (second_ != nullptr) second_->reset();
    ++row_.windows;
    for (std::size_t begin = 0; begin < ids.size(); begin += kStepTokens) {
      const std::size_t count = std::min(kStepTokens, ids.size() - begin);
      if (second_ != nullptr) hold_second(ids.subspan(begin, count), begin);
      ours_.read(ids.subspan(begin, count), [&](int position, std::span<const float> logits) {
        take(ids, static_cast<std::size_t>(position), logits, begin);
      });
      progress(count);
    }
  }

  TextRow row(std::size_t tokens, std::size_t bytes) const {
    constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();
    TextRow row = row_;
    row.tokens = static_cast<int>(tokens);
    row.bytes_per_token = static_cast<double>(bytes) / static_cast<double>(tokens);
    row.perplexity = std::exp(our_loss_ / row.predicted);
    const EvaluationRow compared = fidelity_.row({});
    row.against_perplexity = second_ == nullptr ? kAbsent : std::exp(second_loss_ / row.predicted);
    row.perplexity_ratio = compared.perplexity_ratio;
    row.top1 = compared.top1;
    row.kl = compared.kl;
    return row;
  }

 private:
  void hold_second(std::span<const TokenId> ids, std::size_t begin) {
    second_->read(ids, [&](int position, std::span<const float> logits) {
      const std::size_t at = static_cast<std::size_t>(position) - begin;
      std::copy(logits.begin(), logits.end(), held_.begin() + static_cast<std::ptrdiff_t>(at * width_));
    });
  }

  void take(std::span<const TokenId> ids, std::size_t at, std::span<const float> logits, std::size_t begin) {
    const bool predicts = at + 1 < ids.size();
    const double loss = predicts ? engine::negative_log_likelihood(logits, ids[at + 1]) : 0;
    if (!std::isfinite(loss)) {
      throw Error(ErrorKind::internal, fmt::format("logits of position {} are not finite", at));
    }
    our_loss_ += loss;
    row_.predicted += predicts ? 1 : 0;
    if (second_ == nullptr) return;
    const auto held = std::span<const float>(held_).subspan((at - begin) * width_, width_);
    fidelity_.add_position(logits, engine::best_token(held));
    fidelity_.add_logits(logits, held);
    if (!predicts) return;
    const double second_loss = engine::negative_log_likelihood(held, ids[at + 1]);
    second_loss_ += second_loss;
    fidelity_.add_likelihood(loss, second_loss);
  }

  Reader& ours_;
  Reader* second_;           // nullptr: none
  std::vector<float> held_;  // the second's logits of one step, [kStepTokens][width]
  std::size_t width_;
  TextRow row_;
  engine::Fidelity fidelity_;
  double our_loss_ = 0;
  double second_loss_ = 0;
};

std::vector<TokenId> read_ids(const TextProtocol& protocol, const std::filesystem::path& file,
                              const std::string& text) {
  std::vector<TokenId> ids = protocol.encode(text, true);
  if (ids.size() < 2) {
    throw Error(ErrorKind::bad_input,
                fmt::format("{} has {} tokens; predicting needs at least 2", file.string(), ids.size()));
  }
  if (ids.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw Error(ErrorKind::bad_input, fmt::format("{} has {} tokens; at most {} are read", file.string(),
                                                  ids.size(), std::numeric_limits<int>::max()));
  }
  return ids;
}

void check_same_tokens(const std::vector<TokenId>& ids, const std::string& text, const EngineOptions& second,
                       int our_width, int second_width) {
  if (our_width == second_width && TextProtocol::open(second.model)->encode(text, true) == ids) return;
  throw Error(
      ErrorKind::bad_input,
      fmt::format("{} gives the text other tokens, or has {} rows of logits instead of {}; only models "
                  "with one vocabulary can be compared",
                  second.model.string(), second_width, our_width));
}

}  // namespace

TextRow evaluate_text(const EngineOptions& engine, const TextOptions& options) {
  const std::string text = read_text_file(options.text, kMostBytes);
  const std::vector<TokenId> ids = read_ids(*TextProtocol::open(engine.model), options.text, text);
  const engine::ProvedModel proved = engine::prove_model(engine, options.window);
  const int width = proved.checkpoint->dimensions().vocabulary;
  const int window = std::min(proved.context, static_cast<int>(ids.size()));
  if (window < 2) throw Error(ErrorKind::bad_input, "window is 1; predicting needs at least 2 tokens");

  std::optional<Reader> second;
  if (!options.against.empty()) {
    EngineOptions other = engine;
    other.model = options.against;
    other.backend = options.against_backend;
    other.activations = options.against_activations;
    const engine::ProvedModel other_proved = engine::prove_model(other, window);
    check_same_tokens(ids, text, other, width, other_proved.checkpoint->dimensions().vocabulary);
    second.emplace(other, other_proved, window);
  }
  Reader ours(engine, proved, window);
  TextEvaluation evaluation(ours, second ? &*second : nullptr, static_cast<std::size_t>(width));
  std::size_t done = 0;
  const auto count = [&](std::size_t tokens) {
    done += tokens;
    if (engine.progress) engine.progress("reading the text", done, ids.size(), "tokens");
  };
  for (std::size_t begin = 0; begin < ids.size(); begin += static_cast<std::size_t>(window)) {
    evaluation.window(
        std::span(ids).subspan(begin, std::min(static_cast<std::size_t>(window), ids.size() - begin)), count);
  }
  return evaluation.row(ids.size(), text.size());
}

}  // namespace lily
