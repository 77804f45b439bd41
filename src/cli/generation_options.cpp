// The options that decide how tokens are drawn and when an answer ends.
#include "cli/generation_options.hpp"

#include <limits>

namespace lily::cli {

void add_generation_options(Arguments& arguments, GenerationRequest& request) {
  arguments.option("--max-tokens", request.max_tokens, "End the answer after N tokens", "N")
      .range(1, std::numeric_limits<int>::max());
  arguments.repeated("--stop", request.stop_strings, "End the answer before this text; may be repeated",
                     "TEXT");

  SamplingOptions& sampling = request.sampling;
  arguments.group("Sampling (defaults: the checkpoint's)")
      .option("--temperature", sampling.temperature, "0 to 2; 0 always takes the likeliest token", "X")
      .option("--top-k", sampling.top_k, "Keep the K likeliest tokens; 0 keeps all", "K")
      .option("--top-p", sampling.top_p, "Keep the likeliest tokens up to this probability, 0 to 1", "X")
      .option("--min-p", sampling.min_p, "Keep tokens at least this likely beside the likeliest, 0 to 1", "X")
      .option("--repetition-penalty", sampling.repetition_penalty,
              "Above 0, at most 10; over prompt and answer", "X")
      .option("--presence-penalty", sampling.presence_penalty, "-2 to 2; over the answer", "X")
      .option("--frequency-penalty", sampling.frequency_penalty, "-2 to 2; over the answer", "X")
      .option("--seed", sampling.seed, "Same seed, same answer (default: random)", "N");
}

}  // namespace lily::cli
