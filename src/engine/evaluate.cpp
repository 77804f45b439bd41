// The evaluation: a checkpoint on a backend against the stored answers of a reference implementation.
#include <fmt/format.h>

#include <algorithm>

#include "engine/fidelity.hpp"
#include "engine/golden_file.hpp"
#include "engine/open_model.hpp"
#include "lily/error.hpp"
#include "lily/measure.hpp"

namespace lily {
namespace {

constexpr std::int64_t kLastRows = 16;  // of the long entry, whose other logits are not stored

class Evaluation {
 public:
  Evaluation(const engine::GoldenFile& golden, engine::LoadedModel model, const Progress& progress)
      : golden_(golden),
        model_(std::move(model)),
        progress_(progress),
        width_(static_cast<std::size_t>(model_.backend->dimensions().vocabulary)),
        logits_(width_) {}

  // Entries short and mid: the logits of every position are stored.
  EvaluationRow full_entry(const std::string& entry) {
    const std::vector<TokenId> ids = ids_of(entry);
    const std::vector<float> stored =
        golden_.floats(entry + ".logits", shape(static_cast<std::int64_t>(ids.size())));
    engine::Fidelity fidelity;
    run(entry, ids, [&](std::size_t at, std::span<const float> ours) {
      const auto wanted = std::span(stored).subspan(at * width_, width_);
      fidelity.add_position(ours, engine::best_token(wanted));
      fidelity.add_logits(ours, wanted);
      if (at + 1 == ids.size()) return;
      fidelity.add_likelihood(engine::negative_log_likelihood(ours, ids[at + 1]),
                              engine::negative_log_likelihood(wanted, ids[at + 1]));
    });
    return fidelity.row(entry);
  }

  // Entry long: best tokens, likelihoods and the last rows are stored.
  EvaluationRow long_entry() {
    const std::vector<TokenId> ids = ids_of("long");
    const std::vector<TokenId> best = golden_.ids("long.argmax");
    const auto count = static_cast<std::int64_t>(ids.size());
    const std::vector<float> likelihoods = golden_.floats("long.nll", {std::max<std::int64_t>(count - 1, 0)});
    const std::vector<float> last = golden_.floats("long.last16_logits", shape(kLastRows));
    if (best.size() != ids.size() || count < kLastRows) {
      throw Error(ErrorKind::bad_input,
                  fmt::format("long.ids has {} values and long.argmax {}; equal numbers of "
                              "at least {} are needed",
                              ids.size(), best.size(), kLastRows));
    }
    const std::size_t first_stored = ids.size() - static_cast<std::size_t>(kLastRows);
    engine::Fidelity fidelity;
    run("long", ids, [&](std::size_t at, std::span<const float> ours) {
      fidelity.add_position(ours, best[at]);
      if (at >= first_stored)
        fidelity.add_logits(ours, std::span(last).subspan((at - first_stored) * width_, width_));
      if (at + 1 == ids.size()) return;
      fidelity.add_likelihood(engine::negative_log_likelihood(ours, ids[at + 1]), likelihoods[at]);
    });
    return fidelity.row("long");
  }

  // Entry greedy: our own greedy answer to the stored prompt. Steps count while the ids before them are
  // equal.
  EvaluationRow greedy_entry() {
    const std::vector<TokenId> ids = ids_of("greedy");
    const std::vector<float> stored = golden_.floats("greedy.logits", shape(-1));
    const std::size_t steps = stored.size() / width_;
    if (steps == 0 || ids.size() <= steps) {
      throw Error(
          ErrorKind::bad_input,
          fmt::format("greedy.ids has {} values and greedy.logits {} rows; a prompt before the answer and at "
                      "least one row are needed",
                      ids.size(), steps));
    }
    const std::span<const TokenId> prompt = std::span(ids).first(ids.size() - steps);
    const auto sequence = model_.backend->new_sequence(static_cast<int>(ids.size()));
    model_.backend->prefill(*sequence, prompt, logits_, {});
    engine::Fidelity fidelity;
    std::size_t equal = 0;
    while (equal < steps) {
      const TokenId wanted = ids[prompt.size() + equal];
      const auto row = std::span(stored).subspan(equal * width_, width_);
      fidelity.add_position(logits_, wanted);
      fidelity.add_logits(logits_, row);
      fidelity.add_likelihood(engine::negative_log_likelihood(logits_, wanted),
                              engine::negative_log_likelihood(row, wanted));
      if (engine::best_token(logits_) != wanted) break;
      if (++equal < steps) model_.backend->decode(*sequence, wanted, logits_);
    }
    EvaluationRow row = fidelity.row("greedy");
    row.greedy_equal = static_cast<int>(equal);
    return row;
  }

 private:
  std::vector<TokenId> ids_of(const std::string& entry) const {
    const std::vector<TokenId> ids = golden_.ids(entry + ".ids");
    for (const TokenId id : ids) {
      if (id >= 0 && static_cast<std::size_t>(id) < width_) continue;
      throw Error(ErrorKind::bad_input,
                  fmt::format("{}.ids holds {}; the model's ids run from 0 to {}", entry, id, width_ - 1));
    }
    return ids;
  }

  std::vector<std::int64_t> shape(std::int64_t rows) const {
    return {rows, static_cast<std::int64_t>(width_)};
  }

  template <class Use>
  void run(const std::string& entry, const std::vector<TokenId>& ids, const Use& use) {
    const auto sequence = model_.backend->new_sequence(static_cast<int>(ids.size()));
    backend::PrefillControl control;
    control.every_position = [&](int position, std::span<const float> ours) {
      use(static_cast<std::size_t>(position), ours);
    };
    if (progress_) {
      control.progress = [&](int done, int total) {
        progress_(entry, static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total), "tokens");
      };
    }
    model_.backend->prefill(*sequence, ids, logits_, control);
  }

  const engine::GoldenFile& golden_;
  engine::LoadedModel model_;
  const Progress& progress_;
  std::size_t width_;
  std::vector<float> logits_;
};

int longest_entry(const engine::GoldenFile& golden) {
  std::size_t longest = 0;
  for (const char* entry : {"short.ids", "mid.ids", "long.ids", "greedy.ids"}) {
    if (golden.contains(entry)) longest = std::max(longest, golden.ids(entry).size());
  }
  if (longest == 0) {
    throw Error(ErrorKind::bad_input, "the golden file has none of the entries short, mid, long, greedy");
  }
  return static_cast<int>(longest);
}

}  // namespace

void evaluate(const EngineOptions& engine, const std::filesystem::path& golden_path,
              const std::function<void(const EvaluationRow&)>& row) {
  const engine::GoldenFile golden(golden_path);
  Evaluation evaluation(golden,
                        engine::load_model(engine, engine::prove_model(engine, longest_entry(golden))),
                        engine.progress);
  for (const char* entry : {"short", "mid"}) {
    if (golden.contains(std::string(entry) + ".ids")) row(evaluation.full_entry(entry));
  }
  if (golden.contains("long.ids")) row(evaluation.long_entry());
  if (golden.contains("greedy.ids")) row(evaluation.greedy_entry());
}

}  // namespace lily
