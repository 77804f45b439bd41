// DeltaNet and attention of prefill on the tiles of AMX. Only for machines that have them.
#pragma once

#include "backend/cpu/kernels.hpp"

namespace lily::cpu {

// Kernels::delta_net_heads, delta_net_heads_fast, attend_group.
void amx_delta_net_heads(const DeltaNetRun* runs, int heads);
void amx_delta_net_heads_fast(const DeltaNetRun* runs, int heads);
void amx_attend_group(const KvView& kv, int head_dim, const AttentionGroup& group);

}  // namespace lily::cpu
