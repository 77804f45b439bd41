// Attention of one token on Hopper, under the contracts of AttentionDecode and AttentionDecodeInt8.
//
// Of a split a warp takes 16 positions at a time, by itself: their keys and values go through rows of shared
// memory that only this warp uses, and the next ones are on their way while these are multiplied. What
// earlier plans wrote, all but the newest positions, is asked for before the kernel before this one ends.
//
// Scores are queries x keys, so that a lane has a head's scores of four positions, and these, as weights, are
// the right operand of values x weights as they are. Queries and weights are two halves each, as in the
// dialect's body: rows h and h + 8 of the left operand, and two products.
#pragma once

#include "backend/gpu/cuda/kernels/fragments.h"
#include "backend/gpu/cuda/kernels/shapes.h"
#include "backend/gpu/cuda/kernels/wgmma.h"
#include "backend/gpu/dialect/overlap.h"
#include "backend/gpu/kernels/args/attention_tiles.h"
#include "backend/gpu/kernels/attention_rows.h"

namespace lily::gpu::hopper {

constexpr float kLog2E = 1.4426950408889634f;

// Halves and what is left of the values, so that both together are exact to 22 bits.
struct TwoHalves {
  uint high, rest;
};
GPU_FN TwoHalves two_halves(float x, float y, float lift_of_rest) {
  uint high = half_pack(x, y);
  return {high, half_pack((x - half_lo(high)) * lift_of_rest, (y - half_hi(high)) * lift_of_rest)};
}

// Keys or values of a KV head; scales belong to codes only.
template <class Element>
struct CacheOf {
  const Element* rows;
  const float* scales;
};

// Positions of a token: `end` of them, of which earlier plans wrote `earlier`.
struct Sight {
  uint earlier, end;
};

// Which rows a copy asks for: those of [low, high), and, if it `pads`, zeros for rows that do not exist.
struct Asked {
  uint low, high;
  bool pads;
};

// Asks for rows of 16 positions from `first` on, of which those before `end` exist.
template <class Shape, class Element>
GPU_FN void fetch_rows(uint to, uint ld, CacheOf<Element> cache, uint first, Asked asked, uint end,
                       uint lane) {
  constexpr uint kPieces = Shape::row_bytes / 16, kRows = 32 / kPieces;  // rows of an instruction
  const uint row = lane / kPieces, piece = lane % kPieces;
  const uint rows_to = to + row * ld + piece * 16, scales_to = to + Shape::chunk * ld + lane * 16;
  if (asked.low <= first && first + Shape::chunk <= min(asked.high, end)) {  // nearly always: all of them
    const Element* from = cache.rows + ulong(first + row) * Shape::dim + piece * (16 / sizeof(Element));
    GPU_UNROLL for (uint i = 0; i < Shape::chunk / kRows; ++i) {
      copy_chunk(rows_to + i * kRows * ld, from + i * kRows * Shape::dim, true);
    }
    if constexpr (sizeof(Element) == 1) {
      copy_chunk(scales_to, cache.scales + ulong(first + lane) * 4, lane < Shape::chunk);
    }
    return;
  }
  const auto exists = [&](uint position) { return position < end; };
  const auto live = [&](uint position) {
    return exists(position) ? position >= asked.low && position < asked.high : asked.pads;
  };
  GPU_UNROLL for (uint i = 0; i < Shape::chunk / kRows; ++i) {
    uint position = first + row + i * kRows;
    copy_chunk(
        rows_to + i * kRows * ld,
        cache.rows + ulong(exists(position) ? position : 0) * Shape::dim + piece * (16 / sizeof(Element)),
        live(position), exists(position));
  }
  if constexpr (sizeof(Element) == 1) {
    uint position = first + lane;
    copy_chunk(scales_to, cache.scales + ulong(exists(position) ? position : 0) * 4,
               lane < Shape::chunk && live(position), exists(position));
  }
}

// The first of four inputs of a query, of which a lane has all in product `step`: those whose keys one access
// of 16 bytes brings.
template <class Element>
GPU_FN uint query_input(uint step, uint c) {
  return sizeof(Element) == 2 ? step / 2 * 32 + c * 8 + step % 2 * 4 : step / 4 * 64 + c * 16 + step % 4 * 4;
}
GPU_FN uint4 query_operand(float4 v) {
  TwoHalves low = two_halves(v.x, v.y, 2048.0f), high = two_halves(v.z, v.w, 2048.0f);
  return uint4{low.high, low.rest, high.high, high.rest};
}

// Queries, keys and values of the newest positions as AttentionPrepare left them.
struct StoredRows {
  const float* queries;  // of the KV head's first head
  enum : bool { has_newest = false };

  template <class Shape>
  __device__ __forceinline__ void begin(uchar*, Thread) {}
  template <class Shape, class Element>
  __device__ __forceinline__ void put(uchar* memory, uint group, bool, Thread t) {
    constexpr uint kSteps = Shape::dim / 16 / Shape::warps;
    uint g = t.lane / 4, c = t.lane % 4;
    GPU_UNROLL for (uint i = 0; i < kSteps; ++i) {
      uint step = t.simd * kSteps + i;
      float4 v = float4{0.0f, 0.0f, 0.0f, 0.0f};
      if (g < group) v = load4(queries + g * Shape::dim + query_input<Element>(step, c));
      store16(memory + (step * 32 + t.lane) * 16, query_operand(v));
    }
  }
};

// A warp's sums over the positions so far. Of its head lane / 4 a lane knows the largest score, and the sum
// of the weights of its own positions; `y` has heads 2 c and 2 c + 1.
struct WarpSums {
  float largest, sum;
  float y[16][4];
};

// Scores of head g with positions 2 c, 2 c + 1, 2 c + 8 and 2 c + 9 of the chunk.
GPU_FN void add_score(float (&scores)[4], const float (&low)[4], const float (&high)[4]) {
  scores[0] += low[0] + low[2] * (1.0f / 2048.0f);
  scores[1] += low[1] + low[3] * (1.0f / 2048.0f);
  scores[2] += high[0] + high[2] * (1.0f / 2048.0f);
  scores[3] += high[1] + high[3] * (1.0f / 2048.0f);
}
template <class Shape>
GPU_FN void score_keys(float (&scores)[4], const half*, const uchar* keys, const uchar* queries, uint lane) {
  const uchar* row = keys + lane / 4 * Shape::key_ld + lane % 4 * 16;
  float low[2][4] = {}, high[2][4] = {};
  GPU_UNROLL for (uint j = 0; j < Shape::dim / 32; ++j) {
    uint4 k = load16(row + j * 64), l = load16(row + 8 * Shape::key_ld + j * 64);
    uint4 q = load16(queries + (j * 64 + lane) * 16), r = load16(queries + (j * 64 + 32 + lane) * 16);
    multiply_halves(low[0], q, k.x, k.y);
    multiply_halves(high[0], q, l.x, l.y);
    multiply_halves(low[1], r, k.z, k.w);
    multiply_halves(high[1], r, l.z, l.w);
  }
  GPU_UNROLL for (uint i = 0; i < 2; ++i) add_score(scores, low[i], high[i]);
}
// Scales of the lane's four positions.
template <class Shape>
GPU_FN void load_scales(float4 (&scales)[4], const uchar* from, uint lane) {
  GPU_UNROLL for (uint i = 0; i < 4; ++i) {
    scales[i] = load4(reinterpret_cast<const float*>(from) + (lane % 4 * 2 + i % 2 + i / 2 * 8) * 4);
  }
}
GPU_FN float part_of(float4 v, uint i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }
GPU_FN uint part_of(uint4 v, uint i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

template <class Shape>
GPU_FN void score_keys(float (&scores)[4], const uchar*, const uchar* keys, const uchar* queries, uint lane) {
  const uchar* row = keys + lane / 4 * Shape::key_ld + lane % 4 * 16;
  float4 scales[4];
  load_scales<Shape>(scales, keys + Shape::chunk * Shape::key_ld, lane);
  GPU_UNROLL for (uint group = 0; group < 4; ++group) {
    uint4 k = load16(row + group * 64), l = load16(row + 8 * Shape::key_ld + group * 64);
    float low[4] = {}, high[4] = {};
    GPU_UNROLL for (uint i = 0; i < 4; ++i) {
      uint4 q = load16(queries + ((group * 4 + i) * 32 + lane) * 16);
      uint x = part_of(k, i) ^ 0x80808080u, y = part_of(l, i) ^ 0x80808080u;
      multiply_halves(low, q, low_halves(x), high_halves(x));
      multiply_halves(high, q, low_halves(y), high_halves(y));
    }
    float part[4] = {};
    add_score(part, low, high);
    GPU_UNROLL for (uint i = 0; i < 4; ++i) scores[i] += part[i] * part_of(scales[i], group);
  }
}

// Scores become weights exp(score - largest); earlier sums shrink where there is a new largest score.
GPU_FN void soften(float (&scores)[4], WarpSums& sums, uint lane) {
  float top = fmaxf(fmaxf(scores[0], scores[1]), fmaxf(scores[2], scores[3]));
  top = fmaxf(top, simd_shuffle_xor(top, 1));
  top = fmaxf(top, simd_shuffle_xor(top, 2));
  top = fmaxf(top, sums.largest);
  if (any_lane(top != sums.largest)) {
    float kept = exp2_of((sums.largest - top) * kLog2E);
    float first = lane_value(kept, lane % 4 * 8), second = lane_value(kept, lane % 4 * 8 + 4);
    sums.sum *= kept;
    sums.largest = top;
    GPU_UNROLL for (uint i = 0; i < 16; ++i) {
      sums.y[i][0] *= first;
      sums.y[i][1] *= second;
      sums.y[i][2] *= first;
      sums.y[i][3] *= second;
    }
  }
  GPU_UNROLL for (uint i = 0; i < 4; ++i) {
    scores[i] = exp2_of((scores[i] - top) * kLog2E);
    sums.sum += scores[i];
  }
}

// Weights are lifted so that a half holds also what is left of them.
template <class Element>
constexpr float kLift = sizeof(Element) == 2 ? 4096.0f : 256.0f;

template <class Shape>
GPU_FN void add_values(WarpSums& sums, const half*, const float (&weights)[4], const uchar* values,
                       uint lane) {
  constexpr float kUp = kLift<half>;
  TwoHalves low = two_halves(weights[0] * kUp, weights[1] * kUp, 1.0f),
            high = two_halves(weights[2] * kUp, weights[3] * kUp, 1.0f);
  GPU_UNROLL for (uint i = 0; i < 16; ++i) {
    uint4 v = transposed_rows(reinterpret_cast<const half*>(values) + i * 16, Shape::value_ld / 2, lane);
    multiply_halves(sums.y[i], v, low.high, high.high);
    multiply_halves(sums.y[i], v, low.rest, high.rest);
  }
}
// A scale belongs to 64 outputs, so it is a factor of the weights.
template <class Shape>
GPU_FN void add_values(WarpSums& sums, const uchar*, const float (&weights)[4], const uchar* values,
                       uint lane) {
  constexpr float kUp = kLift<uchar>;
  const uchar* row = values + lane % 4 * 2 * Shape::value_ld + lane / 4 * 8;
  float4 scales[4];
  load_scales<Shape>(scales, values + Shape::chunk * Shape::value_ld, lane);
  GPU_UNROLL for (uint group = 0; group < 4; ++group) {
    float w[4];
    GPU_UNROLL for (uint i = 0; i < 4; ++i) w[i] = weights[i] * kUp * part_of(scales[i], group);
    TwoHalves low = two_halves(w[0], w[1], 1.0f), high = two_halves(w[2], w[3], 1.0f);
    uint2 v[4];
    GPU_UNROLL for (uint i = 0; i < 4; ++i) {
      v[i] = load8(row + (i % 2 + i / 2 * 8) * Shape::value_ld + group * 64);
    }
    GPU_UNROLL for (uint word = 0; word < 2; ++word) {
      uint a[4];
      GPU_UNROLL for (uint i = 0; i < 4; ++i) a[i] = (word == 0 ? v[i].x : v[i].y) ^ 0x80808080u;
      GPU_UNROLL for (uint pair = 0; pair < 2; ++pair) {
        uint which = pair == 0 ? 0x5140u : 0x7362u;
        uint x = choose_bytes(a[0], a[1], which), y = choose_bytes(a[2], a[3], which);
        uint4 left = uint4{low_halves(x), high_halves(x), low_halves(y), high_halves(y)};
        multiply_halves(sums.y[group * 4 + word * 2 + pair], left, low.high, high.high);
        multiply_halves(sums.y[group * 4 + word * 2 + pair], left, low.rest, high.rest);
      }
    }
  }
}

// Which output a lane's sums y[i][0] and y[i][2] are.
template <class Element>
GPU_FN uint output_of(uint i, uint half_of_rows, uint g) {
  return sizeof(Element) == 2 ? i * 16 + half_of_rows * 8 + g : i / 4 * 64 + g * 8 + i % 4 * 2 + half_of_rows;
}

template <class Shape, class Element>
GPU_FN void put_sums(uchar* own, float* state, const WarpSums& sums, uint lane) {
  uint g = lane / 4, c = lane % 4;
  float* to = reinterpret_cast<float*>(own) + c * 2 * Shape::result_ld;
  GPU_UNROLL for (uint i = 0; i < 16; ++i) {
    GPU_UNROLL for (uint j = 0; j < 4; ++j) {
      to[j % 2 * Shape::result_ld + output_of<Element>(i, j / 2, g)] = sums.y[i][j];
    }
  }
  float sum = sums.sum;
  sum += simd_shuffle_xor(sum, 1);
  sum += simd_shuffle_xor(sum, 2);
  if (c == 0) {
    state[g] = sums.largest;
    state[Shape::heads + g] = sum;
  }
}

// Where a split's results go: those of the KV head's first head are number `at`, of the next ones `splits`
// on.
struct SplitResults {
  float *partial, *maximum, *sums;
  ulong at;
  uint splits;
};

// The sums of the block's warps; one without positions has a largest score below all others.
template <class Shape, class Element>
GPU_FN void join_warps(const SplitResults& to, const uchar* ring, const float* states, uint group,
                       uint index) {
  for (uint i = index; i < group * (Shape::dim / 4); i += Shape::threads) {
    uint head = i / (Shape::dim / 4), d = i % (Shape::dim / 4) * 4;
    float largest = states[head], sum = 0.0f;
    GPU_UNROLL for (uint w = 1; w < Shape::warps; ++w) largest =
        fmaxf(largest, states[w * 2 * Shape::heads + head]);
    float4 y = float4{0.0f, 0.0f, 0.0f, 0.0f};
    GPU_UNROLL for (uint w = 0; w < Shape::warps; ++w) {
      const float* state = states + w * 2 * Shape::heads + head;
      const float* own = reinterpret_cast<const float*>(ring + w * Shape::warp_bytes);
      float weight = exp2_of((state[0] - largest) * kLog2E);
      sum += weight * state[Shape::heads];
      y = y + load4(own + head * Shape::result_ld + d) * weight;
    }
    ulong place = to.at + ulong(head) * to.splits;
    store4(to.partial + place * Shape::dim + d, y * (1.0f / kLift<Element>));
    if (d == 0) {
      to.maximum[place] = largest;
      to.sums[place] = sum;
    }
  }
}

// The newest row, and its scales, to their places in a chunk.
template <class Shape>
GPU_FN void copy_newest(uchar* slot, uint ld, const uchar* newest, uint row, uint lane) {
  if (lane < Shape::row_bytes / 16) store16(slot + row * ld + lane * 16, load16(newest + lane * 16));
  if (Shape::scale_bytes != 0 && lane == 0) {
    store16(slot + Shape::chunk * ld + row * 16, load16(newest + Shape::row_bytes));
  }
}

// The split's share: chunks are divided evenly among as many splits as have one for each warp; the other
// splits are empty.
template <class Shape, class Element, class Source>
GPU_FN void attend_split(Source source, CacheOf<Element> keys, CacheOf<Element> values, Sight sight,
                         uint split, uint group, const SplitResults& to, uchar* memory, Thread t) {
  constexpr uint kChunk = Shape::chunk, kWarps = Shape::warps, kStages = Shape::stages;
  const uint chunks = (sight.end + kChunk - 1) / kChunk;
  const uint used = min(to.splits, (chunks + kWarps - 1) / kWarps);
  if (split >= used) {
    wait_for_previous();
    if (t.index < group) {
      to.maximum[to.at + ulong(t.index) * to.splits] = -1e30f;
      to.sums[to.at + ulong(t.index) * to.splits] = 0.0f;
    }
    return;
  }
  const uint begin = chunks * split / used, share = chunks * (split + 1) / used - begin;
  // Rounds of a chunk a warp, then one of `width` positions, so that no warp has more than another.
  static_assert(kChunk % kWarps == 0);
  const uint full = share / kWarps, width = share % kWarps * (kChunk / kWarps);
  const uint rounds = full + (width > 0 ? 1 : 0);
  uchar* ring = memory + Shape::ring_at + t.simd * Shape::warp_bytes;
  float* states = reinterpret_cast<float*>(memory + Shape::states_at);
  const auto first = [&](uint n) {
    return (begin + n * kWarps) * kChunk + t.simd * (n < full ? kChunk : width);
  };
  const auto end = [&](uint n) {
    return max(min(first(n) + (n < full ? kChunk : width), sight.end), first(n));
  };
  const auto key_slot = [&](uint n) { return ring + n % kStages * Shape::stage_bytes; };
  const auto fetch_keys = [&](uint n, Asked asked) {
    fetch_rows<Shape>(shared_address(key_slot(n)), Shape::key_ld, keys, first(n), asked, end(n), t.lane);
  };
  const auto fetch_values = [&](uint n, Asked asked) {
    fetch_rows<Shape>(shared_address(key_slot(n) + Shape::key_bytes), Shape::value_ld, values, first(n),
                      asked, end(n), t.lane);
  };

  // Of the newest rows a source has itself, the cache is never read.
  const uint last = Source::has_newest ? sight.earlier : sight.end;
  const Asked earlier = {0, sight.earlier, true}, newest_rows = {sight.earlier, last, false},
              all = {0, last, true};
  for (uint n = 0; n < kStages && n < rounds; ++n) {
    fetch_keys(n, earlier);
    fetch_values(n, earlier);
  }
  source.template begin<Shape>(memory, t);
  wait_for_previous();
  for (uint n = 0; n < kStages; ++n) {
    bool newest = !Source::has_newest && n < rounds && first(n) + kChunk > sight.earlier;
    if (newest) fetch_keys(n, newest_rows);
    commit_copies();
    if (newest) fetch_values(n, newest_rows);
    commit_copies();
  }
  source.template put<Shape, Element>(memory, group, split + 1 == used, t);
  group_barrier();

  // Copies are committed one for one, also where there is nothing left to copy, so that each wait covers what
  // is read next and leaves the rest on its way.
  constexpr uint kPending = 2 * kStages - 1;
  WarpSums sums;
  sums.largest = -1e30f;
  sums.sum = 0.0f;
  GPU_UNROLL for (uint i = 0; i < 16; ++i) { GPU_UNROLL for (uint j = 0; j < 4; ++j) sums.y[i][j] = 0.0f; }
  for (uint n = 0; n < rounds; ++n) {
    uchar* slot = key_slot(n);
    float scores[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    wait_copies<kPending>();
    const uint newest = sight.earlier - first(n), rows = end(n) - first(n);
    if (Source::has_newest && newest < rows) {
      copy_newest<Shape>(slot, Shape::key_ld, memory + Shape::newest_at, newest, t.lane);
    }
    simd_sync();
    score_keys<Shape>(scores, keys.rows, slot, memory, t.lane);
    simd_sync();
    if (n + kStages < rounds) fetch_keys(n + kStages, all);
    commit_copies();
    GPU_UNROLL for (uint i = 0; i < 4; ++i) {
      if (t.lane % 4 * 2 + i % 2 + i / 2 * 8 >= rows) scores[i] = -1e30f;
    }
    soften(scores, sums, t.lane);
    wait_copies<kPending>();
    if (Source::has_newest && newest < rows) {
      copy_newest<Shape>(slot + Shape::key_bytes, Shape::value_ld,
                         memory + Shape::newest_at + Shape::newest_bytes, newest, t.lane);
    }
    simd_sync();
    add_values<Shape>(sums, values.rows, scores, slot + Shape::key_bytes, t.lane);
    simd_sync();
    if (n + kStages < rounds) fetch_values(n + kStages, all);
    commit_copies();
  }
  put_sums<Shape, Element>(ring, states + t.simd * 2 * Shape::heads, sums, t.lane);
  group_barrier();
  join_warps<Shape, Element>(to, memory + Shape::ring_at, states, group, t.index);
}

// What AttentionPrepare does, for one token: queries are made where they are read, by every block; the block
// that has the last positions makes keys and values, and puts them into the cache.
template <class Prepare>
struct NewRows {
  const Prepare& a;
  uint kv_head, position;
  float norm[8];
  enum : bool { has_newest = true };

  template <class Shape>
  static __device__ __forceinline__ AttentionRotation* rotation(uchar* memory) {
    return reinterpret_cast<AttentionRotation*>(memory + Shape::rotation_at);
  }
  template <class Shape>
  __device__ __forceinline__ void begin(uchar* memory, Thread t) {
    if (t.simd == 0) put_rotation(rotation<Shape>(memory), a.turns, position, t.lane);
    load_eight(a.q_norm + t.lane * 8, norm);
    group_barrier();
  }
  template <class Shape, class Element>
  __device__ __forceinline__ void put(uchar* memory, uint group, bool last_positions, Thread t) {
    if (last_positions && t.simd + 2 >= Shape::warps) put_newest<Shape>(memory, t);
    for (uint head = t.simd; head < Shape::heads; head += Shape::warps) {
      float v[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
      if (head < group) {
        load_eight(a.projection + (kv_head * group + head) * (2 * Shape::dim) + t.lane * 8, v);
        normalize_and_rotate(v, norm, rotation<Shape>(memory), a.eps, t.lane);
      }
      GPU_UNROLL for (uint i = 0; i < 2; ++i) {
        // Where query_input puts dimensions 8 lane + 4 i.
        uint step = sizeof(Element) == 2 ? t.lane / 4 * 2 + i : t.lane / 8 * 4 + t.lane % 2 * 2 + i;
        uint c = sizeof(Element) == 2 ? t.lane % 4 : t.lane % 8 / 2;
        store16(memory + (step * 32 + head * 4 + c) * 16,
                query_operand(float4{v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]} * 0.0625f));
      }
    }
  }

 private:
  template <class Shape>
  __device__ __forceinline__ void put_newest(uchar* memory, Thread t) {
    const bool key = t.simd + 2 == Shape::warps;
    float v[8], factors[8];
    load_eight(a.projection + (key ? a.k_row : a.v_row) + kv_head * Shape::dim + t.lane * 8, v);
    if (key) {
      load_eight(a.k_norm + t.lane * 8, factors);
      normalize_and_rotate(v, factors, rotation<Shape>(memory), a.eps, t.lane);
    }
    const ulong slot = ulong(kv_head) * a.capacity + position;
    uchar* stash = memory + Shape::newest_at + (key ? 0 : Shape::newest_bytes);
    if constexpr (Shape::scale_bytes == 0) {
      uint4 row =
          uint4{half_pack(v[0], v[1]), half_pack(v[2], v[3]), half_pack(v[4], v[5]), half_pack(v[6], v[7])};
      store16(stash + t.lane * 16, row);
      store16((key ? a.keys : a.values) + slot * Shape::dim + t.lane * 8, row);
    } else {
      store_codes(v, reinterpret_cast<uint*>(stash), reinterpret_cast<float*>(stash + Shape::row_bytes),
                  t.lane);
      store_codes(v, (key ? a.keys : a.values) + slot * (Shape::dim / 4),
                  (key ? a.key_scales : a.value_scales) + slot * 4, t.lane);
    }
  }
};

// Both kernels' arguments have the same names; the grid is theirs: (kv_heads * splits, tokens).
template <class Shape, class Element, class Arguments>
GPU_FN void attend_token(const Arguments& a, const float* key_scales, const float* value_scales,
                         uchar* memory, Thread t) {
  const uint kv_head = t.group.x / a.splits, split = t.group.x % a.splits, token = t.group.y;
  const uint group = a.heads / a.kv_heads, position = a.position[0];
  const ulong head = ulong(token) * a.heads + kv_head * group, rows = ulong(kv_head) * a.capacity;
  attend_split<Shape, Element>(StoredRows{a.queries + head * Shape::dim},
                               CacheOf<Element>{a.keys + rows * Shape::dim, key_scales + rows * 4},
                               CacheOf<Element>{a.values + rows * Shape::dim, value_scales + rows * 4},
                               Sight{position, position + token + 1}, split, group,
                               SplitResults{a.partial, a.maximum, a.sums, head * a.splits + split, a.splits},
                               memory, t);
}

// AttentionPrepare and this kernel in one, for one token.
template <class Shape, class Element, class Prepare, class Arguments>
GPU_FN void attend_new_token(const Prepare& rows, const Arguments& a, const float* key_scales,
                             const float* value_scales, uchar* memory, Thread t) {
  const uint kv_head = t.group.x / a.splits, split = t.group.x % a.splits;
  const uint group = a.heads / a.kv_heads, position = a.position[0];
  const ulong cache = ulong(kv_head) * a.capacity;
  attend_split<Shape, Element>(
      NewRows<Prepare>{rows, kv_head, position, {}},
      CacheOf<Element>{a.keys + cache * Shape::dim, key_scales + cache * 4},
      CacheOf<Element>{a.values + cache * Shape::dim, value_scales + cache * 4},
      Sight{position, position + 1}, split, group,
      SplitResults{a.partial, a.maximum, a.sums, ulong(kv_head) * group * a.splits + split, a.splits}, memory,
      t);
}

}  // namespace lily::gpu::hopper
