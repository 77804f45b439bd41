// The next token of one request, chosen on the device: the draw among the candidates.
//
// Candidates are not sorted. The one at which a sum over the best passes a mark is found digit by digit of
// (logit, id): 256 sums of those that agree in the digits before, and the digit in which the mark lies.
#pragma once
#include "backend/gpu/kernels/args/sample.h"
#include "backend/gpu/kernels/sample.h"

using namespace lily::gpu;

namespace lily::gpu {

// A token's place in the order of choice: smaller is better.
struct TokenRank {
  uint key, id;
};
GPU_FN TokenRank token_rank(float logit, uint id) {
  uint bits = as_type<uint>(logit == 0.0f ? 0.0f : logit);  // -0 and 0 are equal
  return TokenRank{(bits >> 31) != 0 ? bits : ~(bits | 0x80000000u), id};
}
GPU_FN bool not_after(TokenRank a, TokenRank b) { return a.key != b.key ? a.key < b.key : a.id <= b.id; }

// Digits 0 to 3 are the key's bytes, 4 to 6 the id's, highest first.
GPU_FN uint rank_digit(TokenRank rank, uint digit) {
  return digit < 4 ? rank.key >> (24 - 8 * digit) & 255u : rank.id >> (48 - 8 * digit) & 255u;
}
GPU_FN bool same_digits(TokenRank a, TokenRank b, uint digits) {
  if (digits == 0) return true;
  if (digits < 4) return a.key >> (32 - 8 * digits) == b.key >> (32 - 8 * digits);
  return a.key == b.key && (digits == 4 || a.id >> (56 - 8 * digits) == b.id >> (56 - 8 * digits));
}

// What a search goes over: the listed tokens up to `last`, those whose weight is min_p at least, and the
// best.
struct Candidates {
  in<float> logits;
  in<uint> list, count;
  uint slices, slice;
  float best, temperature, min_p;
  uint best_id;
  TokenRank last;
};
GPU_FN bool is_candidate(cref<Candidates> c, TokenRank rank, float weight) {
  return not_after(rank, c.last) && (weight >= c.min_p || rank.id == c.best_id);
}

struct DrawMemory {
  shared<atomic_uint> words;
  shared<ulong> parts;
  shared<ulong> before;
  shared<uint> digit;
  shared<uint> found;
};

// In how many weights the candidates hold, or how many they are.
GPU_FN ulong measure(float weight, bool by_count) { return by_count ? ulong(1) : fixed_weight(weight); }

// The measure of all candidates.
GPU_FN ulong sum_candidates(cref<Candidates> c, cref<DrawMemory> m, Thread t) {
  if (t.index < 3) atomic_set(m.words + t.index, 0);
  group_barrier();
  for (uint slice = t.simd; slice < c.slices; slice += SampleDraw::threads / 32) {
    for (uint i = t.lane; i < c.count[slice]; i += 32) {
      uint id = c.list[slice * c.slice + i];
      float weight = token_weight(c.logits[id], c.best, c.temperature);
      if (is_candidate(c, token_rank(c.logits[id], id), weight)) add_words(m.words, 1, fixed_weight(weight));
    }
  }
  group_barrier();
  ulong sum = join_words(atomic_get(m.words), atomic_get(m.words + 1), atomic_get(m.words + 2));
  group_barrier();
  return sum;
}

// The first candidate, best first, at which the sum of measures is above `mark`; false when it never is.
GPU_FN bool find_candidate(cref<Candidates> c, ulong mark, bool by_count, cref<DrawMemory> m, Thread t,
                           ref<TokenRank> rank) {
  TokenRank prefix = TokenRank{0, 0};
  if (t.index == 0) *m.before = 0;
  for (uint digit = 0; digit < 7; ++digit) {
    for (uint i = t.index; i < 3 * 256; i += SampleDraw::threads) atomic_set(m.words + i, 0);
    group_barrier();
    for (uint slice = t.simd; slice < c.slices; slice += SampleDraw::threads / 32) {
      for (uint i = t.lane; i < c.count[slice]; i += 32) {
        uint id = c.list[slice * c.slice + i];
        TokenRank candidate = token_rank(c.logits[id], id);
        float weight = token_weight(c.logits[id], c.best, c.temperature);
        if (same_digits(candidate, prefix, digit) && is_candidate(c, candidate, weight)) {
          add_words(m.words + rank_digit(candidate, digit), 256, measure(weight, by_count));
        }
      }
    }
    group_barrier();
    if (t.simd == 0) {
      ulong sum = 0;
      for (uint i = t.lane * 8; i < t.lane * 8 + 8; ++i) {
        sum +=
            join_words(atomic_get(m.words + i), atomic_get(m.words + 256 + i), atomic_get(m.words + 512 + i));
      }
      m.parts[t.lane] = sum;
      simd_sync();
      if (t.lane == 0) {
        ulong before = *m.before;
        uint run = 0, bucket = 0;
        while (run < 32 && before + m.parts[run] <= mark) before += m.parts[run++];
        *m.found = run < 32 ? 1 : 0;
        for (bucket = run * 8; run < 32; ++bucket) {
          ulong sum_of = join_words(atomic_get(m.words + bucket), atomic_get(m.words + 256 + bucket),
                                    atomic_get(m.words + 512 + bucket));
          if (before + sum_of > mark) break;
          before += sum_of;
        }
        *m.before = before;
        *m.digit = bucket & 255u;
      }
    }
    group_barrier();
    if (*m.found == 0) return false;  // for all threads alike
    if (digit < 4) prefix.key |= *m.digit << (24 - 8 * digit);
    if (digit >= 4) prefix.id |= *m.digit << (48 - 8 * digit);
    group_barrier();
  }
  rank = prefix;
  return true;
}

// 32 random bits: the upper half of number `n` of the stream.
GPU_FN uint random_bits(ulong key, uint n) {
  ulong value = key + ulong(n) * 0x9e3779b97f4a7c15ul;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ul;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebul;
  return uint((value ^ (value >> 31)) >> 32);
}

// Which of `n` sums, added up in order, passes the mark, which becomes what is left of it; n when none does.
// By one thread.
GPU_FN uint pass_mark(shared<ulong> sums, uint n, ref<ulong> mark) {
  for (uint i = 0; i < n; ++i) {
    if (sums[i] > mark) return i;
    mark -= sums[i];
  }
  return n;
}

// The token goes to the next step and to the host.
GPU_FN void hand_over(out<uint> step, out<uint> ids, uint id_ring, uint token) {
  uint position = step[0] + 1;
  step[0] = position;
  step[1] += 1;
  step[2] = token;
  ids[position % id_ring] = token;
}

}  // namespace lily::gpu

GPU_KERNEL(SampleDraw) {
  allow_next();
  wait_for_previous();
  BestToken best = best_of_slices(a.best_logit, a.best_id, a.slices, t.lane);
  if (best.id == SampleShape::none) {  // for all threads alike
    if (t.index == 0) hand_over(a.step, a.ids, a.id_ring, best.id);
    return;
  }
  DrawMemory m = DrawMemory{s.words, s.parts, &s.before, &s.digit, &s.found};
  uint chosen = best.id;
  bool greedy = is_greedy(a.settings), all = keeps_all(a.settings);
  uint random = random_bits(a.settings->random_key, a.drawn[0] + 1);
  float temperature = a.settings->temperature, min_p = a.settings->min_p;
  if (!greedy && all) {
    // In order of ids: the slice, the run of ids of a thread, the id.
    if (t.index < a.slices) s.sums[t.index] = a.slice_weight[t.index];
    group_barrier();
    if (t.index == 0) {
      ulong total = 0;
      for (uint i = 0; i < a.slices; ++i) total += s.sums[i];
      ulong mark = fraction_of(total, random);
      s.found = pass_mark(s.sums, a.slices, mark);
      s.before = mark;
    }
    group_barrier();
    uint slice = s.found, run = (a.slice + SampleDraw::threads - 1) / SampleDraw::threads;
    ulong mark = s.before;
    group_barrier();
    uint first = min(slice * a.slice + t.index * run, a.rows),
         end = min(first + run, min((slice + 1) * a.slice, a.rows));
    ulong sum = 0;
    for (uint id = first; id < end && slice < a.slices; ++id) {
      float weight = token_weight(a.logits[id], best.logit, temperature);
      if (weight >= min_p) sum += fixed_weight(weight);
    }
    s.sums[t.index] = sum;
    group_barrier();
    if (t.index < 32) {
      ulong part = 0;
      for (uint i = 0; i < 32; ++i) part += s.sums[t.index * 32 + i];
      s.parts[t.index] = part;
    }
    group_barrier();
    if (t.index == 0) {
      uint part = pass_mark(s.parts, 32, mark);
      uint owner = part < 32 ? part * 32 + pass_mark(s.sums + part * 32, 32, mark) : 0;
      s.found = part < 32 ? min(slice * a.slice + owner * run, a.rows) : a.rows;
      s.before = mark;
    }
    group_barrier();
    if (t.index == 0 && s.found < a.rows) {
      mark = s.before;
      for (uint id = s.found; id < min(s.found + run, a.rows); ++id) {
        float weight = token_weight(a.logits[id], best.logit, temperature);
        ulong fixed = weight >= min_p ? fixed_weight(weight) : 0;
        if (fixed > mark) {
          chosen = id;
          break;
        }
        mark -= fixed;
      }
    }
  } else if (!greedy) {
    Candidates c = Candidates{a.logits,   a.list,      a.count, a.slices, a.slice,
                              best.logit, temperature, 0.0f,    best.id,  TokenRank{~0u, ~0u}};
    TokenRank found;
    ulong total = 0;
    if (a.settings->top_k > 0) {
      if (find_candidate(c, a.settings->top_k - 1, true, m, t, found)) c.last = found;
      total = sum_candidates(c, m, t);
    } else {
      in<uint> bucket = a.histogram + t.index * SampleShape::words;  // as many buckets as threads
      s.sums[t.index] = join_words(bucket[1], bucket[2], bucket[3]);
      group_barrier();
      for (uint i = 0; i < SampleShape::buckets; ++i) total += s.sums[i];
    }
    if (a.settings->top_p < 1.0f) {
      ulong limit = fraction_of(total, as_fraction(a.settings->top_p));
      if (find_candidate(c, max(limit, ulong(1)) - 1, false, m, t, found)) c.last = found;
    }
    c.min_p = min_p;
    ulong kept = sum_candidates(c, m, t);
    if (find_candidate(c, fraction_of(kept, random), false, m, t, found)) chosen = found.id;
  }
  if (t.index == 0) {
    if (!greedy) a.drawn[0] += 1;
    uint history = a.history[chosen] + 1;
    if ((history & TokenHistory::control) == 0) history |= TokenHistory::repeated;
    a.history[chosen] = history;
    hand_over(a.step, a.ids, a.id_ring, chosen);
  }
}
