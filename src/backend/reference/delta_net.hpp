// Gated DeltaNet in its recurrent form: projections, causal convolution, delta rule, gated norm.
#pragma once

#include <span>

#include "backend/reference/projection.hpp"
#include "backend/reference/rows.hpp"
#include "checkpoint/checkpoint.hpp"
#include "model/dimensions.hpp"

namespace lily::reference {

// State of one DeltaNet layer of one sequence.
struct DeltaNetState {
  std::span<float> window;  // [kernel - 1][channels] projections of the latest tokens, oldest first
  std::span<float> memory;  // [value_heads][value_dim][key_dim]
};

// One step of the delta rule for one head. S [value_dim][key_dim] is stored in fp32:
//   S = decay * S;  e = beta * (v - S k);  S = S + e k^T;  output = S q
void delta_step(std::span<float> memory, std::span<const double> query, std::span<const double> key,
                std::span<const double> value, double decay, double beta, std::span<double> output);

// Adds the mixer's output for the normalized rows `h` to `residual` and advances the state.
void add_delta_net(const Context& context, const model::Dimensions& dims, const checkpoint::DeltaNet& weights,
                   const Rows& h, DeltaNetState state, Rows& residual);

}  // namespace lily::reference
