// How far a GPU kernel may be from the fp64 formula over the same rounded inputs, each with its reason.
#pragma once

namespace lily::gpu::tolerance {

// Tile products: halves are exact, 16 x n products summed in fp32; relative to the sum of magnitudes.
inline constexpr double kTile = 1e-6;

// exp of a difference and one division, relative to 1.
inline constexpr double kSoftmaxWeight = 1e-6;

// One recurrence step adds a few fp32 roundings to a state that decays; relative to the largest output.
inline constexpr double kDeltaNet = 2e-5;

}  // namespace lily::gpu::tolerance
