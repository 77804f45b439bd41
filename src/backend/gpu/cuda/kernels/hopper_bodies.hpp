// Bodies that only Hopper (compute capability 9.0) can run, in place of the dialect's under the same
// arguments.
#pragma once

#include <span>

#include "backend/gpu/cuda/kernel_body.hpp"

namespace lily::gpu::cuda {

// One for each kernel that gains from the matrix unit's own instructions; the others have none.
std::span<const KernelBody> hopper_bodies();

// A body that does the work of two dispatches which follow each other, launched as the second of them with
// the arguments of both.
struct PairBody {
  KernelId first{};
  KernelBody body;
  bool (*fits)(const Dispatch& first, const Dispatch& second) = nullptr;
};
std::span<const PairBody> hopper_pairs();

}  // namespace lily::gpu::cuda
