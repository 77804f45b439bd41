// Where the time of a decoded token and of a prompt goes, kernel by kernel.
//
//   lily_gpu_profile --model DIR --depth N [--prompt N] [--kv int8] [--backend emulator]
//
// A row: launches, microseconds each in a row of its own kind (overlapping, as in a step), their sum, and for
// kernels that read weights or states the rate (attention's cache is not counted). "in step": by how much the
// whole step is shorter without them.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "backend/gpu/cuda/cuda_device.hpp"
#include "backend/gpu/emulator/emulated_device.hpp"
#include "backend/gpu/gpu_backend.hpp"
#include "cli/arguments.hpp"
#include "engine/synthetic_prompt.hpp"
#include "gpu/timed_device.hpp"

namespace lily::gpu {
namespace {

struct Options {
  std::string model, backend = "cuda", kv = "f16";
  int depth = 512, prompt = 0, repeats = 20;
};

void print(const char* title, const Profile& profile) {
  std::vector<std::pair<std::string, KernelTime>> rows(profile.begin(), profile.end());
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  fmt::print("{:<24} {:>6} {:>10} {:>12} {:>8} {:>9}\n", title, "count", "us each", "us together", "GB/s",
             "in step");
  double sum = 0;
  for (const auto& [name, time] : rows) {
    sum += time.seconds;
    fmt::print("{:<24} {:>6} {:>10.2f} {:>12.1f} {:>8} {:>9}\n", name, time.count,
               1e6 * time.seconds / time.count, 1e6 * time.seconds,
               time.bytes > 0 ? fmt::format("{:.0f}", time.bytes / time.seconds / 1e9) : "",
               time.share != 0 ? fmt::format("{:.1f}", 1e6 * time.share) : "");
  }
  fmt::print("{:<24} {:>6} {:>10} {:>12.1f}\n", "sum", "", "", 1e6 * sum);
}

void profile(const Options& options) {
  int repeats = 0;
  auto device = std::make_unique<TimedDevice>(
      options.backend == "cuda" ? cuda::open_device() : emulator::open_device(available_cores()), repeats);
  const TimedDevice& timed = *device;
  const auto backend =
      open_gpu_backend(std::move(device), checkpoint::Checkpoint::open(options.model),
                       options.kv == "int8" ? KvFormat::int8 : KvFormat::f16, available_cores(), {});
  const int vocabulary = backend->dimensions().vocabulary;
  std::vector<float> logits(static_cast<std::size_t>(vocabulary));
  const auto sequence = backend->new_sequence(options.depth + options.prompt + 2);
  if (options.depth > 0) {
    backend->prefill(*sequence, engine::synthetic_ids(0, options.depth, vocabulary), logits, {});
  }
  repeats = options.repeats;
  if (options.prompt > 0) {
    backend->prefill(*sequence, engine::synthetic_ids(options.depth, options.prompt, vocabulary), logits, {});
    print(fmt::format("{} tokens", options.prompt).c_str(), timed.passes());
  }
  backend->decode(*sequence, 1, logits);
  print("one token", timed.step());
  fmt::print("{}, depth {}: whole step {:.1f} us, {:.1f} tok/s\n", backend->description(),
             options.depth + options.prompt, 1e6 * timed.step_seconds(), 1 / timed.step_seconds());
}

}  // namespace
}  // namespace lily::gpu

int main(int argc, char** argv) {
  lily::gpu::Options options;
  lily::cli::Program program("lily_gpu_profile", "Where the time of a pass goes, kernel by kernel");
  lily::cli::Arguments(program.app())
      .option("--model", options.model, "Checkpoint folder")
      .required()
      .option("--backend", options.backend, "Where it runs")
      .one_of({"cuda", "emulator"})
      .option("--kv", options.kv, "Storage of the attention cache")
      .one_of({"f16", "int8"})
      .option("--depth", options.depth, "Tokens before")
      .range(0, 1 << 24)
      .option("--prompt", options.prompt, "Tokens of a timed prompt")
      .range(0, 1 << 24)
      .option("--repeats", options.repeats, "Of each row")
      .range(1, 1000)
      .run([&options] { lily::gpu::profile(options); });
  try {
    return program.run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lily_gpu_profile: error: %s\n", error.what());
    return 1;
  }
}
