// Gated DeltaNet over many tokens: its inputs for all tokens at once, then the rule, token after token or in
// chunks (docs/model.md, "Gated DeltaNet").
#pragma once

#include "backend/gpu/dialect/types.h"

namespace lily::gpu {

// Convolution, silu, normalized q and k, and the gates. A simdgroup has four tokens, whose rows it reads
// once, and a head of 128 channels: the query heads, the key heads, then the value heads. Rows before the
// first token come from the window, which DeltaWindow moves on afterwards. Grid: (2 * key_heads +
// value_heads, tokens / 32 rounded up).
struct DeltaInputs {
  enum : uint { threads = 256, dim = 128, tokens_per_simd = 4, tokens_per_group = 32 };
  in<float> projection;   // [tokens][stride]
  in<float> convolution;  // [4][channels], oldest tap first
  in<float> rate;         // [value_heads]: -exp(A_log)
  in<float> dt_bias;      // [value_heads]
  in<uint> position;      // of the first token
  in<float> window;
  out<float> q, k;             // [tokens][key_heads][128]
  out<float> v;                // [tokens][value_heads][128]
  out<float> beta, log_decay;  // [tokens][value_heads]
  uint tokens, key_heads, value_heads, stride, b_row, a_row;
  using Shared = NoShared;
};

// The rule token after token, the state in registers: for few tokens, or for all where chunks lose. Eight
// lanes share a row of the state. Grid: (4, value_heads).
struct DeltaScan {
  enum : uint { threads = 256, dim = 128, parts = 4, batch = 16 };
  in<float> q, k, v, beta, log_decay;
  in<uint> step;
  out<float> states;  // [ring][value_heads][128 value][128 key]
  out<float> y;       // [tokens][value_heads][128]
  uint tokens, key_heads, value_heads, ring;
  struct Shared {
    float q[batch * dim], k[batch * dim], v[batch * (dim / parts)];
    float beta[batch], decay[batch];
  };
};

// What a chunk of 64 tokens contributes without knowing the state before it. Rows beyond the tokens are zero.
// T = (I + A)^-1 is solved in fp32, a thread per column; its entries are at most 1, so it meets values and
// keys as halves, values divided by a power of two. Grid: (chunks, value_heads).
struct DeltaChunks {
  enum : uint { threads = 128, dim = 128, chunk = 64, ld = dim + 8, inverse_ld = chunk + 8 };
  in<float> q, k, v, beta, log_decay;
  out<float> decay;  // [value_heads][chunks][64]: c, the sum of log_decay up to the row
  out<float> u;      // [value_heads][chunks][64][128]
  out<half> w;       // the same
  out<half> p;       // [value_heads][chunks][64][64]: lower(Q K^T * D)
  uint tokens, key_heads, value_heads;
  struct Shared {
    half rows[chunk * ld];  // keys, then values
    // A below its diagonal, then T as halves; a simdgroup's 16 rows of T are its room for results.
    float work[chunk * inverse_ld / 2];
    float beta[chunk], log_decay[chunk], decay[chunk], largest[threads / 32];
  };
};

// Chunk after chunk: E = U - W S^T, O = exp(c) Q S^T + P E, S = exp(c_last) S + E^T (exp(c_last - c) K). The
// state stays in registers in fp32; as an operand it is halves, divided by a power of two, and so is E. A
// simdgroup has 16 tokens of the chunk, then 32 keys of the state. Grid: (4, value_heads).
struct DeltaChunkScan {
  enum : uint {
    threads = 128,
    dim = 128,
    parts = 4,
    values = dim / parts,
    chunk = 64,
    ld = dim + 8,
    e_ld = 40
  };
  in<float> q, k;
  in<float> decay, u;
  in<half> w, p;
  in<uint> step;
  out<float> states;
  out<float> y;
  uint tokens, key_heads, value_heads, ring;
  struct Shared {
    half rows[chunk * ld];  // W, Q, P and K, one after the other; the first three by 16 rows a simdgroup
    half state[values * ld];
    half e[chunk * e_ld];
    float decay[chunk];
    float state_largest[threads / 32], e_largest[threads / 32];
  };
};

}  // namespace lily::gpu
