// Bodies that only Hopper (compute capability 9.0) can run, in place of the dialect's under the same
// arguments.
#pragma once

#include <span>

#include "backend/gpu/cuda/kernel_body.hpp"

namespace lily::gpu::cuda {

// One for each kernel that gains from the matrix unit's own instructions; the others have none.
std::span<const KernelBody> hopper_bodies();

}  // namespace lily::gpu::cuda
