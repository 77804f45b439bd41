// The mixture-of-experts block: routed experts and the shared one.
#pragma once

#include "backend/reference/projection.hpp"
#include "backend/reference/rows.hpp"
#include "checkpoint/checkpoint.hpp"

namespace lily::reference {

// Adds to each residual row: sum of w_e * down_e(silu(gate_e h) * up_e h) over the chosen experts, plus
// sigmoid(shared_gate h) * shared(h). `h` holds the normalized rows.
void add_experts(const Context& context, const checkpoint::MixtureOfExperts& moe, int experts_per_token,
                 const Rows& h, Rows& residual);

}  // namespace lily::reference
