// What single techniques are worth: the same model on the same device, with one of them left out at a time.
//
//   lily_gpu_techniques --model DIR [--prompt N] [--depth N] [--steps N] [--backend emulator]
//
// What was left out, its time beside the whole's, and how many of 8 greedy ids behind a prompt of 80 tokens
// stay the same. Fewer are no error where sums take another order.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "backend/gpu/cuda/cuda_device.hpp"
#include "backend/gpu/emulator/emulated_device.hpp"
#include "backend/gpu/gpu_backend.hpp"
#include "backend/gpu/sequence.hpp"
#include "cli/arguments.hpp"
#include "engine/synthetic_prompt.hpp"
#include "gpu/changed_device.hpp"

namespace lily::gpu {
namespace {

struct Options {
  std::string model, backend = "cuda";
  int prompt = 4096, depth = 4096, steps = 200;
};

template <class Work>
double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

class Techniques {
 public:
  explicit Techniques(const Options& options) : options_(options) {
    auto device = options.backend == "cuda" ? cuda::open_device() : emulator::open_device(available_cores());
    backend_ =
        open_gpu_backend(std::make_unique<ChangedDevice>(std::move(device), change_),
                         checkpoint::Checkpoint::open(options.model), KvFormat::f16, available_cores(), {});
    vocabulary_ = backend_->dimensions().vocabulary;
    logits_.resize(static_cast<std::size_t>(vocabulary_));
    rules_.temperature = 0;
    rules_.allowed = {{0, vocabulary_}};
    sequence_ = backend_->new_sequence(std::max(options.prompt, options.depth) + 10 * (options.steps + 4));
    expected_ = short_answer();
  }

  void prompts() {
    fmt::print("{:<34} {:>12} {:>8} {:>6}\n", fmt::format("prompt of {}", options_.prompt), "ms", "tok/s",
               "ids");
    prompt_row("as it is", Change::none);
    prompt_row("routing by the host", Change::host_routing);
    prompt_row("delta rule token after token", Change::serial_delta);
  }

  void steps() {
    fmt::print("{:<34} {:>12} {:>8} {:>6}\n", fmt::format("steps behind {}", options_.depth), "us", "tok/s",
               "ids");
    change_ = Change::none;
    sequence_->reset();
    read(options_.depth);
    step_row("as it is", Change::none);
    step_row("a query head reads for itself", Change::separate_heads);
    step_row("a split per 4,096 positions", Change::few_splits);
    step_row("a launch per kernel", Change::launches);
    step_row("no step ahead", Change::no_run_ahead);
    print_step("the host chooses", host_choice(), 8);
    rules_.presence_penalty = 1e-30F;  // asks for all kernels of sampling and changes nothing
    step_row("the head and the choice apart", Change::none);
    rules_.presence_penalty = 0;
    print_step("as it is", device_choice(), 8);
  }

 private:
  void read(int count) {
    backend_->prefill(*sequence_, engine::synthetic_ids(0, count, vocabulary_), logits_, {});
  }
  // Plans are prepared anew, with the change.
  void change_to(Change change) {
    dynamic_cast<GpuSequence&>(*sequence_).plans() = {};
    change_ = change;
  }

  std::vector<TokenId> short_answer() {
    const auto sequence = backend_->new_sequence(100);
    backend_->prefill(*sequence, engine::synthetic_ids(0, 80, vocabulary_), logits_, {});
    const auto tokens = backend_->stream(*sequence, rules_, 8);
    std::vector<TokenId> ids;
    for (int i = 0; i < 8; ++i) ids.push_back(tokens->next());
    return ids;
  }
  int equal_ids() {
    const std::vector<TokenId> ids = short_answer();
    return static_cast<int>(std::mismatch(ids.begin(), ids.end(), expected_.begin()).first - ids.begin());
  }

  void prompt_row(const char* name, Change change) {
    change_to(change);
    std::vector<double> times;
    for (int repeat = 0; repeat < 4; ++repeat) {
      sequence_->reset();
      times.push_back(seconds_of([&] { read(options_.prompt); }));
    }
    std::sort(times.begin() + 1, times.end());  // the first warms up
    fmt::print("{:<34} {:>12.2f} {:>8.0f} {:>4}/8\n", name, 1e3 * times[2], options_.prompt / times[2],
               equal_ids());
    std::fflush(stdout);
  }

  // Seconds a step, from the first id to the last.
  double device_choice() {
    backend_->decode(*sequence_, 1, logits_);
    const auto tokens = backend_->stream(*sequence_, rules_, options_.steps + 3);
    tokens->next();
    return seconds_of([&] {
             for (int step = 0; step < options_.steps; ++step) tokens->next();
           }) /
           options_.steps;
  }
  double host_choice() {
    change_to(Change::none);
    backend_->decode(*sequence_, 1, logits_);
    return seconds_of([&] {
             for (int step = 0; step < options_.steps; ++step) {
               const auto best = std::max_element(logits_.begin(), logits_.end()) - logits_.begin();
               backend_->decode(*sequence_, static_cast<TokenId>(best), logits_);
             }
           }) /
           options_.steps;
  }
  void step_row(const char* name, Change change) {
    change_to(change);
    const double time = device_choice();
    print_step(name, time, equal_ids());
  }
  static void print_step(const char* name, double time, int equal) {
    fmt::print("{:<34} {:>12.1f} {:>8.1f} {:>4}/8\n", name, 1e6 * time, 1 / time, equal);
    std::fflush(stdout);
  }

  Options options_;
  Change change_ = Change::none;
  std::unique_ptr<backend::Backend> backend_;
  std::unique_ptr<backend::Sequence> sequence_;
  backend::SamplingRules rules_;
  int vocabulary_ = 0;
  std::vector<float> logits_;
  std::vector<TokenId> expected_;
};

}  // namespace
}  // namespace lily::gpu

int main(int argc, char** argv) {
  lily::gpu::Options options;
  lily::cli::Program program("lily_gpu_techniques", "What single techniques are worth on a GPU");
  lily::cli::Arguments(program.app())
      .option("--model", options.model, "Checkpoint folder")
      .required()
      .option("--backend", options.backend, "Where it runs")
      .one_of({"cuda", "emulator"})
      .option("--prompt", options.prompt, "Tokens of a timed prompt")
      .range(1, 1 << 18)
      .option("--depth", options.depth, "Tokens before timed steps")
      .range(1, 1 << 18)
      .option("--steps", options.steps, "Timed steps")
      .range(1, 10000)
      .run([&options] {
        lily::gpu::Techniques techniques(options);
        techniques.prompts();
        techniques.steps();
      });
  try {
    return program.run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lily_gpu_techniques: error: %s\n", error.what());
    return 1;
  }
}
