// The contract of the CPU kernels: data layouts and one table of functions per instruction set.
//
// Everything works on lanes of 16: 16 matrix rows, 16 value rows of a DeltaNet head, 16 cached positions or
// 16 elements. On AVX-512 that is one register, on AVX2 two, on NEON four. The bodies are written once over a
// small SIMD type (simd/*.hpp) and compiled once per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lily::cpu {

inline constexpr int kLanes = 16;
inline constexpr int kGroup = 64;  // columns that share a scale

// A matrix of unsigned codes, repacked so that one instruction multiplies 16 rows.
//
// Rows are cut into blocks of 16 (the last one padded with zero scales). A block is `groups` times
//   planes x 8 chunks of 64 bytes | 16 scales bf16 | 16 biases bf16
// Chunk c holds for row r the 32-bit word of columns 8c .. 8c+7: low nibbles are columns 8c + {0,2,4,6}, high
// nibbles 8c + {1,3,5,7}, just as the checkpoint stores them. 8-bit codes are two planes of 4 bits, high
// plane first, so that every instruction set multiplies them without overflow.
struct PackedMatrix {
  const std::byte* data = nullptr;
  int rows = 0;
  int groups = 0;  // columns / 64
  int planes = 1;  // 1: 4-bit codes, 2: 8-bit codes

  int blocks() const { return (rows + kLanes - 1) / kLanes; }
  std::size_t group_bytes() const { return static_cast<std::size_t>(planes) * 512 + 64; }
  std::size_t block_bytes() const { return group_bytes() * static_cast<std::size_t>(groups); }
  std::size_t bytes() const { return block_bytes() * static_cast<std::size_t>(blocks()); }
};

// Columns of a matrix that should be multiplied in one go: the codes of 16 such rows and both terms of the
// activations stay together in a first-level cache of 32 KiB. With 4,096 columns each block of rows pushes
// the activations out, and decode read such matrices at 41 GB/s where narrower ones gave 57.
inline constexpr int kPanelColumns = 2048;

// Whether results of rows `stride` apart fill lines of 64 bytes. Only such results can go past the caches.
template <class Result>
bool whole_lines(const Result* out, std::ptrdiff_t stride) {
  return reinterpret_cast<std::uintptr_t>(out) % 64 == 0 && stride * sizeof(Result) % 64 == 0;
}

// How a row of activations is rounded. One and two terms, per group of 64: x ~ scale * high, or scale * (256
// high + low), which has 15 bits and a sign. AMX would need three times as long to scale each group as to
// multiply it, so it has two more formats, in which weights are rounded too: bf16 rounds each value to 8
// bits; a wide row has one term per 256 columns, and so have the weights' rows.
enum class RowFormat { one_term, two_terms, bf16, wide };

// Columns of a wide row that share a scale.
inline constexpr int kWideGroups = 4, kWideColumns = kWideGroups * kGroup;

// One row of rounded activations. Codes are stored in the chunk order above. `sums` are the sums of the
// dequantized values, so that the affine bias multiplies exactly what the codes multiply. Of a row in bf16
// nothing else is there; its values are in the order of tiles (body/tile_operands.hpp). A wide row has no
// sums, and the columns of each 8 in the order 0, 1, 4, 5, 2, 3, 6, 7.
struct ActivationRow {
  std::int8_t* high = nullptr;
  std::int8_t* low = nullptr;  // null: one term
  float* scales = nullptr;     // [groups], of a wide row [columns / kWideColumns, rounded up]
  float* sums = nullptr;       // [groups]
  std::uint16_t* bf16 = nullptr;

  bool wide() const { return high != nullptr && sums == nullptr; }
};

// The part of a row from `column` (a multiple of 64, of a wide row of kWideColumns) on.
inline ActivationRow from_column(const ActivationRow& row, int column) {
  if (row.bf16 != nullptr) return {nullptr, nullptr, nullptr, nullptr, row.bf16 + column};
  if (row.wide()) return {row.high + column, nullptr, row.scales + column / kWideColumns, nullptr, nullptr};
  return {row.high + column, row.low != nullptr ? row.low + column : nullptr, row.scales + column / kGroup,
          row.sums + column / kGroup, nullptr};
}

// Positions whose scores are folded into a softmax at once.
inline constexpr int kAttentionBlock = 256;
inline constexpr int kKeyStrip = 32;    // positions
inline constexpr int kValueStrip = 32;  // dims
inline constexpr int kPairLimit = (1 << 14) - 1;
// Query heads of one KV head, and their dims together.
inline constexpr int kMaximumHeads = 16, kMaximumQueryColumns = 16 * 256;

// K and V of one layer and one KV head, for a multiple of kAttentionBlock positions.
//
// Both formats: code * scale, one scale per position and group of 64 dims. key_scales [position / 16][dim /
// 64][16], value_scales [position / 256][dim / 64][position % 256]. Codes that one instruction multiplies and
// adds lie together, and what one pass over a strip reads is one run of memory.
//
// 16 bit: signed codes up to kPairLimit. keys [position / 32][dim / 2][32][2 dims], values [position /
// 256][dim / 32][position % 256 / 2][32][2 positions]. The rounding of a group is at most 2^-15 of its
// largest value, where halves would round each value by up to 2^-12 of itself.
//
// 8 bit: keys [position / 16][dim / 4][16][4], codes + 128 so that they are unsigned, the dims of each 8 in
// chunk order as activations have them; values [position / 256][dim / 16][position % 256 / 4][16][4
// positions], signed.
struct KvView {
  bool int8 = false;
  void* keys = nullptr;    // int16_t or uint8_t
  void* values = nullptr;  // int16_t or int8_t
  float* key_scales = nullptr;
  float* value_scales = nullptr;
};

// One DeltaNet head over a run of tokens. Strides are in floats between tokens.
struct DeltaNetRun {
  float* state = nullptr;          // [value_dim / 16][key_dim][16]
  const float* queries = nullptr;  // [tokens][key_dim], normalized and scaled
  const float* keys = nullptr;     // [tokens][key_dim], normalized
  const float* values = nullptr;   // [tokens][value_dim]
  const float* alpha = nullptr;    // [tokens], decay factor in (0, 1]
  const float* beta = nullptr;     // [tokens]
  float* out = nullptr;            // [tokens][value_dim]
  std::ptrdiff_t query_stride = 0, key_stride = 0, value_stride = 0, gate_stride = 0, out_stride = 0;
  int tokens = 0;
  int key_dim = 0;
  int value_dim = 0;
};

// Online softmax state of the query heads that share one KV head, for one token: running maximum, sum of
// exponentials and weighted sum of values per head.
struct AttentionState {
  float* maximum = nullptr;  // [heads]
  float* sum = nullptr;      // [heads]
  float* values = nullptr;   // [heads][head_dim]
};

// Consecutive tokens and the query heads that share one KV head. Strides are in floats between tokens.
struct AttentionGroup {
  const float* queries = nullptr;  // [tokens][heads][head_dim], already scaled
  float* values = nullptr;         // [tokens][heads][head_dim], weighted sums of values
  float* sums = nullptr;           // [tokens][heads], sums of weights
  std::ptrdiff_t query_stride = 0, value_stride = 0, sum_stride = 0;
  int tokens = 0;
  int heads = 0;
  int position = 0;  // of the first token
};

// Indices of codes in a 16-bit KvView.
constexpr std::ptrdiff_t key_index(int head_dim, int position, int dim) {
  const std::ptrdiff_t strip = position / kKeyStrip;
  return (strip * head_dim + dim / 2 * 2) * kKeyStrip + position % kKeyStrip * 2 + dim % 2;
}
constexpr std::ptrdiff_t value_index(int head_dim, int position, int dim) {
  const std::ptrdiff_t block = position / kAttentionBlock, row = position % kAttentionBlock;
  return (block * head_dim + dim / kValueStrip * kValueStrip) * kAttentionBlock + row / 2 * 2 * kValueStrip +
         dim % kValueStrip * 2 + row % 2;
}
// In an 8-bit KvView.
constexpr std::ptrdiff_t key_code_index(int head_dim, int position, int dim) {
  const std::ptrdiff_t block = position / kLanes, quad = dim / 8 * 2 + dim % 2;
  return (block * head_dim + quad * 4) * kLanes + position % kLanes * 4 + dim % 8 / 2;
}
constexpr std::ptrdiff_t value_code_index(int head_dim, int position, int dim) {
  const std::ptrdiff_t block = position / kAttentionBlock, row = position % kAttentionBlock;
  return (block * head_dim + dim / kLanes * kLanes) * kAttentionBlock + row / 4 * 4 * kLanes +
         dim % kLanes * 4 + row % 4;
}
// In either.
constexpr std::ptrdiff_t key_scale_index(int head_dim, int position, int dim) {
  return (static_cast<std::ptrdiff_t>(position / kLanes) * (head_dim / kGroup) + dim / kGroup) * kLanes +
         position % kLanes;
}
constexpr std::ptrdiff_t value_scale_index(int head_dim, int position, int dim) {
  const std::ptrdiff_t block = position / kAttentionBlock;
  return (block * (head_dim / kGroup) + dim / kGroup) * kAttentionBlock + position % kAttentionBlock;
}

// A whole block of positions in 8-bit codes, for `fast` attention: keys and their scales as in an 8-bit
// KvView; values in its order too, but with one scale per dim, which multiplies the finished sums.
struct KvCodes {
  std::uint8_t* keys = nullptr;   // [256 * head_dim]
  float* key_scales = nullptr;    // [256 * head_dim / 64]
  std::int8_t* values = nullptr;  // [256 * head_dim]
  float* value_scales = nullptr;  // [head_dim]
};

struct Kernels {
  const char* name = nullptr;  // "avx512-vnni"

  // What prefill gives matmul to multiply with. Tokens that pass through a layer's experts together: 512 give
  // an expert 16 tokens on average, and all its weights are read once for them. Tokens of one expert that a
  // thread takes at once: enough to reuse its codes, few enough to share out the shared expert, which has all
  // tokens. Of other matrices, blocks of rows and tokens that a thread takes at once: four blocks, 72 KiB of
  // codes, stay in the second-level cache.
  int expert_chunk = 512, expert_tokens = 64, blocks_at_once = 4, tokens_at_once = 512;

  // What prefill's rows are by default and in `fast`; `exact` and decode have terms. Only a set that names
  // bf16 or wide rows here takes them.
  RowFormat automatic_rows = RowFormat::one_term, fast_rows = RowFormat::one_term;

  // Rounds x [columns] (a multiple of 64) into `row`. A non-finite element makes its scale non-finite, or is
  // itself there in bf16, so that it reaches the logits and is noticed.
  void (*quantize)(const float* x, int columns, const ActivationRow& row) = nullptr;

  // out[t * stride + r] = sum_c W[r][c] x_t[c] for the rows r of blocks [begin, end) and all tokens. All rows
  // have one format. The result of a token does not depend on the others. `out` has room for the padded rows.
  void (*matmul)(const PackedMatrix& matrix, int begin, int end, const ActivationRow* rows, int tokens,
                 float* out, std::ptrdiff_t stride) = nullptr;
  // The same for more results than the caches hold, which go past them: a line that has to be fetched to be
  // written may cost more than its products. Null where an instruction set cannot.
  void (*matmul_past_cache)(const PackedMatrix& matrix, int begin, int end, const ActivationRow* rows,
                            int tokens, float* out, std::ptrdiff_t stride) = nullptr;

  // The product of wide rows, its results rounded to bf16, an eighth of the error that the rows have, so that
  // memory has half as much to move. `past_cache`: past the caches, if they fill lines. Null where there are
  // no wide rows.
  void (*matmul_to_halves)(const PackedMatrix& matrix, int begin, int end, const ActivationRow* rows,
                           int tokens, std::uint16_t* out, std::ptrdiff_t stride, bool past_cache) = nullptr;

  // out = x / sqrt(mean(x^2) + eps) * factor. x and out may be the same; n is a multiple of 16 (all below).
  void (*rms_norm)(const float* x, const float* factor, float eps, int n, float* out) = nullptr;
  // x = x / sqrt(sum(x^2) + eps) * scale, in place.
  void (*l2_normalize)(float* x, float eps, float scale, int n) = nullptr;
  // out = silu(gate) * up.
  void (*silu_multiply)(const float* gate, const float* up, int n, float* out) = nullptr;
  void (*silu_multiply_halves)(const std::uint16_t* gate, const std::uint16_t* up, int n,
                               float* out) = nullptr;
  // out = rms_norm(x) * weight * silu(gate).
  void (*gated_rms_norm)(const float* x, const float* weight, const float* gate, float eps, int n,
                         float* out) = nullptr;
  // x = x * sigmoid(gate).
  void (*sigmoid_multiply)(const float* gate, int n, float* x) = nullptr;
  // y += sum of weights[i] * rows[i], in order.
  void (*add_weighted)(const float* const* rows, const float* weights, int count, int n, float* y) = nullptr;
  void (*add_weighted_halves)(const std::uint16_t* const* rows, const float* weights, int count, int n,
                              float* y) = nullptr;
  // out[c] = silu(sum_m weights[m * stride + c] * rows[m][first + c]), m = 0 .. taps-1 oldest first.
  void (*convolve)(const float* const* rows, int first, const float* weights, std::ptrdiff_t stride, int taps,
                   int channels, float* out) = nullptr;

  // The recurrence of docs/model.md "Gated DeltaNet" for 16 value rows, `block` of value_dim / 16.
  void (*delta_net)(const DeltaNetRun& run, int block) = nullptr;
  // The same for all value rows of `heads` value heads that share their queries, keys and number of tokens,
  // in chunks of 64 tokens on matrix tiles, a few last ones apart. key_dim and value_dim are multiples of 32.
  // Prefill that is not `exact` uses it; null where there are no tiles. A run cut at multiples of 64 tokens
  // gives the same bits, cut elsewhere others.
  void (*delta_net_heads)(const DeltaNetRun* runs, int heads) = nullptr;
  // The same for prefill of wide rows, the factors of products rounded to bf16.
  void (*delta_net_heads_fast)(const DeltaNetRun* runs, int heads) = nullptr;

  // Stores one token's key and value (fp32, head_dim values each) at `position`.
  void (*store_kv)(const KvView& kv, int head_dim, int position, const float* key,
                   const float* value) = nullptr;
  // Folds positions [begin, end) into `state` for `heads` (<= kMaximumHeads) queries [heads][head_dim],
  // already scaled. All of one block: begin is its first, end at most the block's end. Order of blocks
  // decides the rounding.
  void (*attend)(const KvView& kv, int head_dim, const float* queries, int heads, int begin, int end,
                 const AttentionState& state) = nullptr;

  // `fast` attention: queries, keys, softmax weights and values in one 8-bit term each. Null where the
  // instruction set does not multiply unsigned with signed bytes. encode_block writes the codes of the block
  // that starts at `begin`, all of whose positions are stored, to `room` and returns where they lie (the keys
  // of an 8-bit view stay where they are); attend_codes folds them into `state` as attend does.
  KvCodes (*encode_block)(const KvView& kv, int head_dim, int begin, const KvCodes& room) = nullptr;
  void (*attend_codes)(const KvCodes& codes, int head_dim, const float* queries, int heads,
                       const AttentionState& state) = nullptr;

  // `fast` attention of many tokens at once, over positions 0 up to each token's own, all of which are
  // stored: writes values and sums. Queries, keys, softmax weights and values are rounded to bf16. A token's
  // result does not depend on the others. head_dim is a multiple of 32. Null where there are no matrix tiles.
  void (*attend_group)(const KvView& kv, int head_dim, const AttentionGroup& group) = nullptr;

  // Reads memory as fast as the instruction set can; returns a value that depends on all of it.
  std::uint64_t (*read_stream)(const std::byte* data, std::size_t bytes) = nullptr;
  // Runs `rounds` of independent integer dot products; returns the operations done (multiply and add: two).
  double (*integer_peak)(std::int64_t rounds, std::int32_t* sink) = nullptr;
  // The same for fp32 multiply-adds.
  double (*float_peak)(std::int64_t rounds, float* sink) = nullptr;
};

// Each is defined in kernels_<set>.cpp and may only be called on a machine that has the instructions.
const Kernels& generic_kernels();
#if defined(__x86_64__)
const Kernels& avx2_kernels();
const Kernels& avx512_kernels();
const Kernels& amx_kernels();
#endif
#if defined(__aarch64__)
const Kernels& neon_kernels();
const Kernels& i8mm_kernels();
#endif

}  // namespace lily::cpu
