// What a synthetic checkpoint consists of: dimensions, tensors and where their values come from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/writer.hpp"
#include "lily/json.hpp"
#include "model/dimensions.hpp"

namespace lily::checkpoint {

enum class SyntheticKind { codes, scales, biases, norm, convolution, a_log, dt_bias };

struct SyntheticTensor {
  OutputTensor output;
  SyntheticKind kind = SyntheticKind::codes;
  std::uint64_t stream = 0;  // random stream; scales and biases of a module share one
  int bits = 4;              // of a quantized matrix
  float deviation = 0;       // of a quantized matrix's weights
};

struct SyntheticPreset {
  model::Dimensions dimensions;
  std::uint64_t shard_bytes = 0;
  int first_control_id = 0;  // of 33; ordinary tokens fill the ids below
};

// "35b" or "tiny". Throws Error(bad_input) for other names.
SyntheticPreset synthetic_preset(const std::string& name);

// All tensors in the MLX 4-bit layout: router and shared gate in 8 bits, everything else that is a matrix in
// 4, in groups of 64; vectors in bf16.
std::vector<SyntheticTensor> synthetic_tensors(const model::Dimensions& dims);

// config.json of such a checkpoint; `end_of_text` is the id of <|endoftext|>.
Json synthetic_config(const model::Dimensions& dims, int end_of_text);

}  // namespace lily::checkpoint
