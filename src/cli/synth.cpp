// `lily synth`: writes a random checkpoint in the real layout.
#include <memory>

#include "cli/arguments.hpp"
#include "cli/commands.hpp"
#include "cli/input_output.hpp"
#include "cli/interrupt.hpp"
#include "cli/progress_bar.hpp"
#include "lily/synth.hpp"

namespace lily::cli {

void add_synth(CLI::App& program) {
  const auto options = std::make_shared<SynthOptions>();
  Arguments arguments(program, "synth", "Write a random checkpoint of the real shape");
  arguments.option("--out", options->out, "Folder to write; must be empty or absent", "DIR")
      .required()
      .option("--preset", options->preset, "35b (19.5 GB) or tiny (default: 35b)", "NAME")
      .option("--seed", options->seed, "Same seed, same bytes (default: 1)", "N")
      .option("--tokenizer", options->tokenizer, "tokenizer.json to put beside it (default: one of bytes)",
              "FILE")
      .examples(
          "Speed depends on shapes and formats, not on values, so a random checkpoint measures like the real "
          "one.\n"
          "Examples:\n"
          "  lily synth --out random-35b && lily bench --model random-35b\n"
          "  lily synth --out random-tiny --preset tiny --seed 7")
      .run([options] {
        const InterruptScope interrupt;
        options->progress = until_stopped(progress_bar(), interrupt.token());
        synthesize(*options);
        write_output(options->out.string() + "\n");
      });
}

}  // namespace lily::cli
