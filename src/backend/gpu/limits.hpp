// What the GPU kernels can run: shapes and formats, refused by name otherwise.
#pragma once

#include "checkpoint/checkpoint.hpp"
#include "model/dimensions.hpp"

namespace lily::gpu {

// Throw Error(unsupported) that names the dimension or tensor, its value and what the kernels need.
void require_kernels(const model::Dimensions& dims);
void require_kernel(const checkpoint::Matrix& matrix);

}  // namespace lily::gpu
