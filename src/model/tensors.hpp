// Every tensor the architecture has: name in each layout, shape, and whether it is a matrix.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/dimensions.hpp"

namespace lily::model {

// mlx: `language_model.model.…`, experts split in three, norms stored as 1 + w, conv [C, 4, 1].
// hugging_face: `model.language_model.…`, `experts.gate_up_proj` fused, norms stored as w, conv [C, 1, 4].
enum class Layout { mlx, hugging_face };

enum class TensorKind {
  matrix,        // [out, in] or [experts, out, in]; may be quantized
  norm,          // zero-centred in hugging_face, 1 + w in mlx
  plain_vector,  // A_log, dt_bias, linear_attn.norm
  convolution,   // [C, 1, 4] or [C, 4, 1]
};

struct TensorSpec {
  std::string name;                 // full name; for a matrix the module path is the name without ".weight"
  std::vector<std::int64_t> shape;  // logical (unpacked)
  TensorKind kind = TensorKind::matrix;
};

// All tensors that must exist exactly once, in a fixed order.
std::vector<TensorSpec> expected_tensors(const Dimensions& dims, Layout layout);

// Names that may be present and are not read: vision and MTP weights.
bool is_ignored_tensor(const std::string& name);

}  // namespace lily::model
