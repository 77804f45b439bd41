// How far a GPU kernel may be from the fp64 formula over the same rounded inputs, each with its reason.
#pragma once

namespace lily::gpu::tolerance {

// Inputs of matrix-vector products are rounded to 1 / 32512 of their group's largest magnitude: half a step,
// and a little for the step itself being rounded; relative to that magnitude and the sum of the weights'
// magnitudes.
inline constexpr double kInputStep = 0.51 / 32512;

// fp32 sums of up to 72 blocks' parts and the roundings of scale, norm and gates; relative to the sum of
// magnitudes.
inline constexpr double kSum = 1e-6;

// Attention: keys and values are compared as stored (halves), so what is left is fp32 sums and exponentials
// of differences of up to 20; relative to the largest value.
inline constexpr double kAttention = 1e-5;

// A rotation by an angle that is off by 2^-24 of a turn at most; relative to the pair's length.
inline constexpr double kRotation = 1e-6;

// Prefill attention: queries and weights are halves, and so are values scaled from 8 bits. 2^-11 for each of
// the two roundings of a term, which partly cancel in the sum; relative to the largest value. Scores of up to
// 20 move a weight by 20 * 2^-11 / sqrt(256).
inline constexpr double kAttentionHalves = 2e-3;

// Storing a half: 2^-11 relative, with some room for the value being off by an fp32 rounding before.
inline constexpr double kHalf = 0.501 / 1024;

// Below 2^-14 a half is a multiple of 2^-24.
inline constexpr double kSubnormalHalf = 0.501 / 16777216;

// Tile products: halves are exact, 16 x n products summed in fp32; relative to the sum of magnitudes.
inline constexpr double kTile = 1e-6;

// exp of a difference and one division, relative to 1.
inline constexpr double kSoftmaxWeight = 1e-6;

// One recurrence step adds a few fp32 roundings to a state that decays; relative to the largest output.
inline constexpr double kDeltaNet = 2e-5;

// In chunks, keys, queries, values, the triangular system's inverse, state and errors meet as halves: 2^-12
// for each operand of four products after each other, some of whose errors the triangular system passes on;
// relative to the largest output.
inline constexpr double kDeltaChunks = 2e-3;

}  // namespace lily::gpu::tolerance
