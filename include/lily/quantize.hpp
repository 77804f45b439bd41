// Unquantized checkpoints turned into MLX's affine 4-bit or 8-bit layout.
#pragma once

#include <cstdint>
#include <filesystem>

#include "lily/progress.hpp"

namespace lily {

struct QuantizeOptions {
  std::filesystem::path model;  // bf16 or f32 weights, Hugging Face or MLX layout
  std::filesystem::path out;    // created; must be empty or absent
  int bits = 4;                 // 4 or 8; router and shared-expert gate always get 8
  int group_size = 64;          // 32, 64 or 128; router and shared-expert gate always get 64
  Progress progress;
};

struct QuantizeReport {
  int tensors = 0;          // written
  std::uint64_t bytes = 0;  // of these tensors
  int skipped_tensors = 0;  // vision and draft head, which the text model does not have
};

// Proves the model as Engine::open does and streams it through: one piece of rows per thread is in memory, so
// any size will do. The result depends on the model and the options only; for a bf16 model it equals what
// MLX-LM's converter writes, tensor for tensor, and f32 weights are rounded to bf16 first. The tokenizer, the
// template and the generation defaults are copied. Throws Error: not_found, bad_input (the model, its values,
// the options, a folder in use), unsupported (already quantized, another architecture), device (disk full;
// the output folder is taken back).
QuantizeReport quantize(const QuantizeOptions& options);

}  // namespace lily
