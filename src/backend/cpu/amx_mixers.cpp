// DeltaNet and attention of prefill on the tiles of AMX.
#include "backend/cpu/amx_mixers.hpp"

#include "backend/cpu/simd/amx_tiles.hpp"
#include "backend/cpu/simd/avx512.hpp"
// The bodies use Simd, so they come after it.
#include "backend/cpu/body/tile_attention.hpp"
#include "backend/cpu/body/tile_delta_net.hpp"

namespace lily::cpu {

void amx_delta_net_heads(const DeltaNetRun* runs, int heads) {
  tiled::delta_net_heads<AmxTiles, tiled::SplitTile>(runs, heads, avx512_kernels().delta_net);
}

void amx_delta_net_heads_fast(const DeltaNetRun* runs, int heads) {
  tiled::delta_net_heads<AmxTiles, tiled::PairTile>(runs, heads, avx512_kernels().delta_net);
}

void amx_attend_group(const KvView& kv, int head_dim, const AttentionGroup& group) {
  tiled::attend_group<AmxTiles>(kv, head_dim, group);
}

}  // namespace lily::cpu
