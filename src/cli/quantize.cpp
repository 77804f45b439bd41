// `lily quantize`: an unquantized checkpoint in MLX's 4-bit or 8-bit layout.
#include <fmt/core.h>

#include <cstdio>
#include <memory>

#include "cli/arguments.hpp"
#include "cli/commands.hpp"
#include "cli/input_output.hpp"
#include "cli/interrupt.hpp"
#include "cli/progress_bar.hpp"
#include "lily/quantize.hpp"

namespace lily::cli {
namespace {

void run_quantize(QuantizeOptions& options) {
  const InterruptScope interrupt;
  options.progress = until_stopped(progress_bar(), interrupt.token());
  const QuantizeReport report = quantize(options);
  fmt::print(stderr, "{} tensors, {:.1f} MB\n", report.tensors, static_cast<double>(report.bytes) / 1e6);
  if (report.skipped_tensors > 0) {
    fmt::print(stderr, "{} vision and MTP tensors left out: the text model does not use them\n",
               report.skipped_tensors);
  }
  write_output(options.out.string() + "\n");
}

}  // namespace

void add_quantize(CLI::App& program) {
  const auto options = std::make_shared<QuantizeOptions>();
  Arguments arguments(program, "quantize", "Turn bf16 weights into 4 or 8 bits");
  arguments.option("--model", options->model, "Folder of the unquantized checkpoint", "DIR")
      .required()
      .option("--out", options->out, "Folder to write; must be empty or absent", "DIR")
      .required()
      .option("--bits", options->bits, "Bits of a weight (default: 4)")
      .one_of({"4", "8"})
      .option("--group-size", options->group_size, "Weights that share a scale and a bias (default: 64)")
      .one_of({"32", "64", "128"})
      .examples(
          "Reads the Hugging Face or the MLX layout and writes MLX's, byte for byte as MLX-LM's converter "
          "does: router\n"
          "and shared-expert gate in 8 bits, vectors in bf16. The weights stream through; memory stays "
          "small.\n"
          "Example:\n"
          "  lily quantize --model Qwen3.6-35B-A3B --out qwen3.6-35b-4bit && lily info --model "
          "qwen3.6-35b-4bit")
      .run([options] { run_quantize(*options); });
}

}  // namespace lily::cli
