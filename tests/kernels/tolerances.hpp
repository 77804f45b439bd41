// How far a kernel may be from the fp64 formula over the same rounded inputs, each with its reason.
#pragma once

namespace lily::cpu::tolerance {

// fp32 sums of up to 2048 products in 16 lanes, relative to the sum of magnitudes: 2^-24 per addition, some
// 130 additions a lane, errors of random sign.
inline constexpr double kSum = 2e-6;

// Weights and activations rounded to bf16, relative to the sum of magnitudes: each value moves by up to 2^-9
// of itself, two of them by 2^-8 at most, which a product of a single group may come near.
inline constexpr double kBf16Product = 0x1p-8;

// Wide rows: standard deviations of what rounding moves a value by, of the largest around it. A step of 1 /
// 127 has 1 / sqrt(12) of itself; weights have 1 / 126, and up to half a step more from the multipliers of
// 8-bit codes. A product adds up many of them; none of the tests' thousands is 4 deviations away.
inline constexpr double kWideActivation = 2.3e-3, kWideWeight = 3e-3;
inline constexpr double kDeviations = 5;

// The polynomial exponential and one or two fp32 roundings, relative to the result.
inline constexpr double kElementwise = 1e-6;

// One recurrence step adds a few fp32 roundings to a state that decays; relative to the largest output. The
// run of 20,000 tokens with almost no decay (case NUM-02) is held to the case's own bound, 1e-3.
inline constexpr double kDeltaNet = 2e-5;
inline constexpr double kDeltaNetLongRun = 1e-3;
// In chunks on tiles both factors of a product have two bf16 terms, 2^-17 of each, and the product of the
// lower terms, 2^-18, is left out; products follow each other four times within a chunk (1.8e-5 seen at most;
// with one term 6e-3).
inline constexpr double kDeltaNetChunks = 5e-5;
inline constexpr double kDeltaNetOneTerm = 1e-2;

// Softmax weights carry the exponential's error, values are fp32 sums; relative to the largest value. Keys
// and values are compared as stored (16 or 8 bit), so storage is not part of it.
inline constexpr double kAttention = 1e-5;

// Queries and softmax weights against a 16-bit cache have 11 to 15 bits per 64: scores of size 8 move by 1e-3
// (rms), and weights by as much (2e-3 seen at most).
inline constexpr double kAttentionPairs = 4e-3;

// 8-bit KV where bytes are multiplied with bytes: queries have 15 bits per group of 64, which moves scores of
// some tens by up to 2e-4 and the weights by as much; fp32 values of size 1.
inline constexpr double kAttentionTwoTerms = 1e-3;
// `fast`: queries, keys and weights in 8 bits, scores of size 1.6: they move by 1 %, and so do weights; over
// 768 positions the errors average out (1e-2 seen at most).
inline constexpr double kAttentionCodes = 2e-2;
// On tiles: all of them in bf16, 2^-9 of each; values of size 4 that have all the weight show it unreduced.
inline constexpr double kAttentionTiles = 2e-2;
// Scores of some tens move by 0.04 (rms), and weights by as much of themselves (0.15 of values of size 4 seen
// at most).
inline constexpr double kAttentionTilesSharp = 0.25;

// 15 bits and a sign per group: half a step of 1 / 32639 of the group's largest magnitude. One term: half a
// step of 1 / 127.
inline constexpr double kTwoTerms = 0.51 / 32639;
inline constexpr double kOneTerm = 0.51 / 127;
// Keys and values in 16 bits: half a step of 1 / 16383.
inline constexpr double kPair = 0.51 / 16383;

}  // namespace lily::cpu::tolerance
