// The benchmark: one measured prefill and greedy decode steps per row, in process, over ids.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "engine/candidates.hpp"
#include "engine/open_model.hpp"
#include "engine/synthetic_prompt.hpp"
#include "engine/token_ranges.hpp"
#include "engine/token_source.hpp"
#include "lily/error.hpp"
#include "lily/measure.hpp"

namespace lily {
namespace {

using Clock = std::chrono::steady_clock;

// The warm-up runs the measured prompt, up to this many tokens: it is there to fault in pages and grow
// scratch, and a longer one would only double the time of a long row.
constexpr int kWarmUpTokens = 512;

// Decode is measured in segments of this time with the machine's limits between them: a virtual machine was
// seen to move between 33 and 59 GB/s every few seconds, so a limit counts only beside what it is the limit
// of.
constexpr auto kSegment = std::chrono::milliseconds(250);

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void check_each(const std::vector<int>& values, int least, const char* name) {
  if (values.empty()) throw Error(ErrorKind::bad_input, fmt::format("{} is empty", name));
  for (const int value : values) {
    if (value >= least) continue;
    throw Error(ErrorKind::bad_input, fmt::format("{} holds {}; at least {} is needed", name, value, least));
  }
}

// Tokens that the largest row's sequence must hold.
int needed_context(const BenchmarkOptions& options) {
  check_each(options.prompts, 1, "prompts");
  check_each(options.depths, 0, "depths");
  check_each({options.decode}, 1, "decode");
  const std::int64_t needed =
      std::int64_t{*std::max_element(options.prompts.begin(), options.prompts.end())} +
      *std::max_element(options.depths.begin(), options.depths.end()) + options.decode + 1;
  if (needed > std::numeric_limits<int>::max()) {
    throw Error(ErrorKind::too_long,
                fmt::format("prompt, depth and decode steps add up to {} tokens", needed));
  }
  return static_cast<int>(needed);
}

std::uint64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
#if defined(__APPLE__)
  return static_cast<std::uint64_t>(usage.ru_maxrss);
#else
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
#endif
}

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

class Benchmark {
 public:
  Benchmark(engine::LoadedModel model, const BenchmarkOptions& options, const Progress& progress)
      : model_(std::move(model)),
        steps_(options.decode),
        progress_(progress),
        all_ids_(vocabulary(), [](TokenId) { return true; }),
        logits_(static_cast<std::size_t>(vocabulary())) {}

  BenchmarkRow measure(int prompt, int depth) {
    const auto sequence = model_.backend->new_sequence(depth + prompt + steps_ + 1);
    warm_up(*sequence, prompt);
    if (depth > 0) read(*sequence, 0, depth, "reading up to the depth");

    Measured measured;
    backend::MachineLimits before = model_.backend->measure_limits();
    const auto start = Clock::now();
    read(*sequence, depth, prompt, "measured prefill");
    measured.ids.push_back(best());
    measured.prefill_seconds = seconds(Clock::now() - start);
    const backend::MachineLimits after = model_.backend->measure_limits();
    measured.int8_tera_ops = (before.int8_tera_ops + after.int8_tera_ops) / 2;

    before = after;
    for (int done = 0; done < steps_;) {
      const double time = decode_segment(*sequence, done, measured.ids);
      const int steps = static_cast<int>(measured.ids.size()) - 1 - done;
      const backend::MachineLimits limits = model_.backend->measure_limits();
      const double stream = (before.stream_gb_per_s + limits.stream_gb_per_s) / 2;
      const double rate =
          model_.backend->decode_traffic(depth + prompt + done + steps / 2).total() * steps / time / 1e9;
      measured.decode_seconds += time;
      measured.streams.push_back(stream);
      measured.shares.push_back(stream > 0 ? rate / stream : 0);
      before = limits;
      done += steps;
    }
    measured.ids.erase(measured.ids.begin());
    return row(prompt, depth, measured);
  }

 private:
  struct Measured {
    double prefill_seconds = 0, decode_seconds = 0;
    double int8_tera_ops = 0;             // mean of before and after prefill
    std::vector<double> streams, shares;  // of each segment of decode
    std::vector<TokenId> ids;
  };

  // Decodes until steps_ are `done` or a segment's time is over, appending to `ids`; returns the seconds.
  // The first step is the backend's decode; the others it may choose itself, and what it is ahead in the end
  // is not counted.
  double decode_segment(backend::Sequence& sequence, int done, std::vector<TokenId>& ids) {
    const auto start = Clock::now();
    model_.backend->decode(sequence, ids.back(), logits_);
    const auto tokens =
        engine::open_tokens(*model_.backend, sequence, logits_,
                            {greedy_, all_ids_, {}, [](TokenId) { return false; }}, steps_ - done);
    do {
      ids.push_back(tokens->next());
    } while (++done < steps_ && Clock::now() - start < kSegment);
    return seconds(Clock::now() - start);
  }

  int vocabulary() const { return model_.backend->dimensions().vocabulary; }
  TokenId best() const { return engine::best_candidate(logits_, all_ids_).id; }

  void read(backend::Sequence& sequence, int first, int count, const char* work) {
    backend::PrefillControl control;
    if (progress_) {
      control.progress = [&](int done, int total) {
        progress_(work, static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total), "tokens");
      };
    }
    model_.backend->prefill(sequence, engine::synthetic_ids(first, count, vocabulary()), logits_, control);
  }

  // In the sequence that is measured, so that steps it records once are recorded.
  void warm_up(backend::Sequence& sequence, int prompt) {
    read(sequence, 0, std::min(prompt, kWarmUpTokens), "warm-up");
    std::vector<TokenId> ids{best()};
    decode_segment(sequence, steps_ - 1, ids);
    sequence.reset();
  }

  BenchmarkRow row(int prompt, int depth, const Measured& measured) const {
    BenchmarkRow row;
    row.backend = model_.backend->description();
    row.prompt_tokens = prompt;
    row.depth = depth;
    row.prefill_tok_s = prompt / measured.prefill_seconds;
    row.decode_tok_s = steps_ / measured.decode_seconds;
    row.bytes_per_token = model_.backend->decode_traffic(depth + prompt + steps_ / 2).total();
    row.gb_per_s = row.bytes_per_token * row.decode_tok_s / 1e9;
    row.stream_gb_per_s = median(measured.streams);
    row.int8_tera_ops = measured.int8_tera_ops;
    row.limit_share = median(measured.shares);
    if (row.int8_tera_ops > 0) {
      const double operations = model::token_cost(model_.backend->dimensions()).prefill_operations;
      row.prefill_limit_share = operations * row.prefill_tok_s / (row.int8_tera_ops * 1e12);
    }
    row.activations = model_.activations;
    row.kv = model_.kv;
    row.peak_rss_bytes = peak_resident_bytes();
    row.digest = engine::digest(measured.ids);
    return row;
  }

  engine::LoadedModel model_;
  int steps_;
  const Progress& progress_;
  const engine::SamplingSettings greedy_{.temperature = 0};
  engine::TokenRanges all_ids_;  // the digest is over rows of the head, whether or not they have a token
  std::vector<float> logits_;
};

}  // namespace

void benchmark(const EngineOptions& engine, const BenchmarkOptions& options,
               const std::function<void(const BenchmarkRow&)>& row) {
  Benchmark benchmark(engine::load_model(engine, engine::prove_model(engine, needed_context(options))),
                      options, engine.progress);
  for (const int depth : options.depths) {
    for (const int prompt : options.prompts) row(benchmark.measure(prompt, depth));
  }
}

}  // namespace lily
