// Random checkpoints in the real MLX 4-bit layout, for speed work and tests without a download.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "lily/progress.hpp"

namespace lily {

struct SynthOptions {
  std::filesystem::path out;        // created; must be empty or absent
  std::string preset = "35b";       // "35b" (19.5 GB) or "tiny" (the golden models' shape)
  std::uint64_t seed = 1;           // same seed, same bytes
  std::filesystem::path tokenizer;  // tokenizer.json to put beside it; empty: a byte-level one is made
  Progress progress;
};

// Streams the shards to disk. Throws Error: bad_input (preset, folder in use, vocabulary larger than the
// model's), device (disk full; the partial file is removed).
void synthesize(const SynthOptions& options);

}  // namespace lily
