// The next token of one request, chosen on the device: from logits to candidates.
#pragma once
#include "backend/gpu/kernels/args/sample.h"
#include "backend/gpu/kernels/products.h"

using namespace lily::gpu;

namespace lily::gpu {

GPU_FN bool better_token(float logit, uint id, float other_logit, uint other_id) {
  return logit != other_logit ? logit > other_logit : id < other_id;
}

struct BestToken {
  float logit;
  uint id;  // SampleShape::none: some logit was not finite
};

GPU_FN bool is_finite(float x) { return (as_type<uint>(x) & 0x7f800000u) != 0x7f800000u; }

// The best of what the threads have, for all of them. `bad` of any thread makes it none.
GPU_FN BestToken best_of_group(float logit, uint id, bool bad, uint simds, shared<float> logits,
                               shared<uint> ids, shared<uint> bads, Thread t) {
  float top = simd_max(logit);
  uint lowest = simd_min(logit == top ? id : ~0u), any = simd_mask(bad);
  if (t.lane == 0) {
    logits[t.simd] = top;
    ids[t.simd] = lowest;
    bads[t.simd] = any;
  }
  group_barrier();
  BestToken best = BestToken{logits[0], ids[0]};
  uint all_bad = bads[0];
  for (uint i = 1; i < simds; ++i) {
    if (better_token(logits[i], ids[i], best.logit, best.id)) best = BestToken{logits[i], ids[i]};
    all_bad |= bads[i];
  }
  if (all_bad != 0) best.id = SampleShape::none;
  return best;
}

// The best of all slices, by one simdgroup.
GPU_FN BestToken best_of_slices(in<float> logits, in<uint> ids, uint slices, uint lane) {
  float logit = -3.4028235e38f;
  uint id = SampleShape::none;
  bool bad = false;
  for (uint i = lane; i < slices; i += 32) {
    bad = bad || ids[i] == SampleShape::none;
    if (better_token(logits[i], ids[i], logit, id)) {
      logit = logits[i];
      id = ids[i];
    }
  }
  float top = simd_max(logit);
  uint lowest = simd_min(logit == top ? id : ~0u);
  return BestToken{top, simd_mask(bad) != 0 ? SampleShape::none + 0u : lowest};
}

GPU_FN float token_weight(float logit, float best, float temperature) {
  return exp((logit - best) / temperature);
}
// In units of 2^-42.
GPU_FN ulong fixed_weight(float weight) { return ulong(weight * 4398046511104.0f); }
GPU_FN uint token_bucket(float logit, float best, float temperature) {
  return uint(min((best - logit) / temperature * 16.0f, 1023.0f));
}

// value * factor, factor a fraction of 2^32; value < 2^60.
GPU_FN ulong fraction_of(ulong value, uint factor) {
  return (value >> 32) * factor + ((value & 0xffffffffu) * factor >> 32);
}
GPU_FN uint as_fraction(float x) { return uint(min(x * 4294967296.0f, 4294967040.0f)); }

// Adds a number below 2^42 to a sum in three words of 14 bits and room; `stride` words lie between them. 2^18
// such numbers fit.
GPU_FN void add_words(shared<atomic_uint> words, uint stride, ulong value) {
  atomic_add(words, uint(value & 0x3fffu));
  atomic_add(words + stride, uint(value >> 14 & 0x3fffu));
  atomic_add(words + 2 * stride, uint(value >> 28));
}
GPU_FN ulong join_words(uint low, uint middle, uint high) {
  return ulong(low) + (ulong(middle) << 14) + (ulong(high) << 28);
}

GPU_FN bool is_greedy(in<SampleSettings> settings) {
  return settings->temperature <= 0.0f || settings->top_p <= 0.0f || settings->top_k == 1;
}
GPU_FN bool keeps_all(in<SampleSettings> settings) { return settings->top_k == 0 && settings->top_p >= 1.0f; }

// What a row of the head is worth to the choice.
GPU_FN float adjusted_logit(float logit, uint history, in<SampleSettings> settings) {
  if ((history & TokenHistory::repeated) != 0) {
    logit = logit > 0.0f ? logit / settings->repetition : logit * settings->repetition;
  }
  uint count = history & TokenHistory::count_mask;
  if (count > 0) logit -= settings->presence + settings->frequency * float(count);
  return logit;
}

}  // namespace lily::gpu

GPU_KERNEL(SampleAdjust) {
  const float lowest = -3.4028235e38f;
  allow_next();
  wait_for_previous();
  uint first = t.group.x * a.slice, end = min(first + a.slice, a.rows);
  float best = lowest;
  uint best_id = SampleShape::none;
  bool bad = false;
  for (uint id = first + t.index; id < end; id += SampleAdjust::threads) {
    uint history = a.history[id];
    float logit = lowest;
    if ((history & TokenHistory::banned) == 0) {
      logit = adjusted_logit(a.logits[id], history, a.settings);
      if (a.settings->has_bias != 0) logit = a.bias[id] > -100.0f ? logit + a.bias[id] : lowest;
      bad = bad || !is_finite(logit);
    }
    a.logits[id] = logit;
    if (better_token(logit, id, best, best_id)) {
      best = logit;
      best_id = id;
    }
  }
  // A slice without tokens to choose from must not look like one with a bad logit.
  BestToken found =
      best_of_group(best, min(best_id, a.rows - 1), bad, SampleAdjust::threads / 32, s.logit, s.id, s.bad, t);
  if (t.index == 0) {
    a.best_logit[t.group.x] = found.logit;
    a.best_id[t.group.x] = found.id;
  }
  if (t.group.x == 0) {
    for (uint i = t.index; i < SampleShape::buckets * SampleShape::words; i += SampleAdjust::threads) {
      a.histogram[i] = 0;
    }
  }
}

GPU_KERNEL(HeadBest) {
  const uint simds = HeadBest::threads / 32;
  uint blocks = blocks_of(a.inputs), tiles = (a.rows + 15) / 16;
  uint tile = min(t.group.x * simds + t.simd, tiles - 1), tile_bytes = blocks * a.planes * WeightBlock::bytes;
  BlockCodes block = load_block(a.weights + ulong(tile) * tile_bytes, t.lane);
  InputFactors factors = load_factors(a.factor, a.inputs, t.index);
  allow_next();
  wait_for_previous();
  prepare_long(a.x, a.factor, factors, a.inputs, HeadBest::threads, t, s.codes, s.groups, s.squares);
  group_barrier();
  float scale = inverse_rms(s.squares, simds, a.inputs, a.eps), best = -3.4028235e38f;
  uint best_id = SampleShape::none;
  bool bad = false;
  for (tile = t.group.x * simds + t.simd; tile < tiles; tile += a.groups * simds) {
    in<uchar> weights = a.weights + ulong(tile) * tile_bytes;
    in<uchar> next = a.weights + ulong(min(tile + a.groups * simds, tiles - 1)) * tile_bytes;
    float logit = tile_product(weights, next, block, blocks, a.planes, s.codes, s.groups, t.lane) * scale;
    uint row = tile * 16 + (t.lane >> 2) + (t.lane & 3) * 8;
    if ((t.lane & 3) < 2 && row < a.rows) {
      a.y[row] = logit;
      if ((a.history[row] & TokenHistory::banned) == 0) {
        bad = bad || !is_finite(logit);
        if (better_token(logit, row, best, best_id)) {
          best = logit;
          best_id = row;
        }
      }
    }
  }
  BestToken found = best_of_group(best, min(best_id, a.rows - 1), bad, simds, s.logit, s.id, s.bad, t);
  if (t.index == 0) {
    a.best_logit[t.group.x] = found.logit;
    a.best_id[t.group.x] = found.id;
  }
}

GPU_KERNEL(SampleHistogram) {
  const uint words = SampleShape::buckets * SampleShape::words;
  allow_next();
  wait_for_previous();
  if (is_greedy(a.settings)) return;
  BestToken best = best_of_slices(a.best_logit, a.best_id, a.slices, t.lane);
  bool all = keeps_all(a.settings);
  float temperature = a.settings->temperature;
  for (uint i = t.index; i < words; i += SampleHistogram::threads) atomic_set(s.words + i, 0);
  group_barrier();
  uint first = t.group.x * a.slice, end = min(first + a.slice, a.rows);
  for (uint id = first + t.index; id < end; id += SampleHistogram::threads) {
    float weight = token_weight(a.logits[id], best.logit, temperature);
    if (all) {
      if (weight >= a.settings->min_p) add_words(s.words + 1, 1, fixed_weight(weight));
    } else {
      shared<atomic_uint> bucket =
          s.words + token_bucket(a.logits[id], best.logit, temperature) * SampleShape::words;
      atomic_add(bucket, 1);
      add_words(bucket + 1, 1, fixed_weight(weight));
    }
  }
  group_barrier();
  if (all) {
    if (t.index == 0) {
      a.slice_weight[t.group.x] =
          join_words(atomic_get(s.words + 1), atomic_get(s.words + 2), atomic_get(s.words + 3));
    }
    return;
  }
  for (uint i = t.index; i < words; i += SampleHistogram::threads) {
    uint value = atomic_get(s.words + i);
    if (value > 0) atomic_add(a.histogram + i, value);
  }
}

GPU_KERNEL(SampleCollect) {
  allow_next();
  wait_for_previous();
  if (is_greedy(a.settings) || keeps_all(a.settings)) return;
  BestToken best = best_of_slices(a.best_logit, a.best_id, a.slices, t.lane);
  // Where top-k or top-p ends: 32 runs of 32 buckets, then the buckets of one run.
  if (t.simd == 0) {
    uint count = 0;
    ulong weight = 0;
    for (uint i = t.lane * 32; i < t.lane * 32 + 32; ++i) {
      in<uint> bucket = a.histogram + i * SampleShape::words;
      count += bucket[0];
      weight += join_words(bucket[1], bucket[2], bucket[3]);
    }
    s.counts[t.lane] = count;
    s.weights[t.lane] = weight;
    simd_sync();
    if (t.lane == 0) {
      atomic_set(&s.found, 0);
      ulong total = 0, held = 0, wanted = a.settings->top_k;
      bool by_count = wanted > 0;
      for (uint i = 0; i < 32; ++i) total += s.weights[i];
      if (!by_count) wanted = fraction_of(total, as_fraction(a.settings->top_p));
      uint run = 0;
      while (run < 31 && held + (by_count ? ulong(s.counts[run]) : s.weights[run]) < wanted) {
        held += by_count ? ulong(s.counts[run]) : s.weights[run];
        ++run;
      }
      uint last = run * 32;
      for (; last < run * 32 + 31; ++last) {
        in<uint> bucket = a.histogram + last * SampleShape::words;
        held += by_count ? ulong(bucket[0]) : join_words(bucket[1], bucket[2], bucket[3]);
        if (held >= wanted) break;
      }
      s.last = last;
    }
  }
  group_barrier();
  uint first = t.group.x * a.slice, end = min(first + a.slice, a.rows);
  for (uint id = first + t.index; id < end; id += SampleCollect::threads) {
    if (token_bucket(a.logits[id], best.logit, a.settings->temperature) <= s.last) {
      a.list[first + atomic_add(&s.found, 1)] = id;  // in any order: sums are integers
    }
  }
  group_barrier();
  if (t.index == 0) a.count[t.group.x] = atomic_get(&s.found);
}
