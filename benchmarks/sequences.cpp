// Kernels over a sequence's state: attention and the KV cache, DeltaNet.
#include <cmath>
#include <functional>
#include <memory>

#include "backend/cpu/forward.hpp"
#include "harness.hpp"
#include "inputs.hpp"
#include "working_set.hpp"

namespace lily::benchmarks {

namespace {

using cpu::AttentionState;
using cpu::DeltaNetRun;
using cpu::kAttentionBlock;
using cpu::KvView;

constexpr int kPiece = 1024;  // cached positions of one task of decode
constexpr int kTokens = 32;   // that share a block of positions in prefill
constexpr int kRun = 64;      // tokens that a DeltaNet state passes through

const char* format(bool int8) { return int8 ? "int8" : "f16"; }

// Running softmax of the query heads of one KV head.
struct Softmax {
  explicit Softmax(int heads, int head_dim)
      : maximum(static_cast<std::size_t>(heads), -INFINITY),
        sum(static_cast<std::size_t>(heads)),
        values(product(heads, head_dim)) {}
  AttentionState state() { return {maximum.data(), sum.data(), values.data()}; }
  std::vector<float> maximum, sum, values;
};

// Bytes of keys and values of one KV head that attention over `positions` reads.
double cache_bytes(int positions, bool int8) {
  const int dim = dimensions().head_dim;
  const int row = dim * (int8 ? 1 : 2) + dim / cpu::kGroup * 4;  // codes and scales
  return 2.0 * positions * row;
}

// One token against caches from memory: both KV heads of a layer, in pieces of 1,024 positions.
void add_attention_decode(int depth, bool int8) {
  const model::Dimensions& dims = dimensions();
  add("decode/attention/depth:" + std::to_string(depth) + "/" + format(int8), Limit::memory,
      dims.kv_heads * cache_bytes(depth, int8), [depth, int8, &dims](const Machine& machine) -> Call {
        working_set().fill_caches();
        const int heads = dims.queries_per_kv(), pieces = depth / kPiece * dims.kv_heads;
        const auto queries =
            std::make_shared<std::vector<float>>(random_values(product(heads, dims.head_dim), -0.1F, 0.1F));
        const auto sums = std::make_shared<std::vector<Softmax>>(static_cast<std::size_t>(pieces),
                                                                 Softmax(heads, dims.head_dim));
        return [machine, depth, int8, heads, pieces, queries, sums, &dims, index = 0]() mutable {
          machine.pool.parallel_for(pieces, 1, [&](std::int64_t first, std::int64_t last, int /*thread*/) {
            for (std::int64_t i = first; i < last; ++i) {
              const int piece = static_cast<int>(i);
              const KvView kv =
                  working_set().cache(depth, dims.head_dim, int8, index + piece % dims.kv_heads);
              const int begin = piece / dims.kv_heads * kPiece;
              for (int at = begin; at < begin + kPiece; at += kAttentionBlock) {
                machine.kernels.attend(kv, dims.head_dim, queries->data(), heads, at, at + kAttentionBlock,
                                       (*sums)[static_cast<std::size_t>(piece)].state());
              }
            }
          });
          index += dims.kv_heads;
        };
      });
}

// Tokens against a block of positions that stays in the second-level cache, on every thread. begin(machine)
// gives what is done with a thread's cache before its tokens, which gives what is done with each of them:
// attend(queries, heads, state).
template <class Begin>
void add_prefill_attention(const std::string& name, Limit limit, bool int8, const Begin& begin) {
  const model::Dimensions& dims = dimensions();
  // Scores and weighted sum: a multiply and an add each.
  const double operations = 4.0 * kTokens * kAttentionBlock * dims.queries_per_kv() * dims.head_dim;
  add(
      "prefill/" + name + "/block:256/" + format(int8), limit,
      [operations](int threads) { return operations * threads; },
      [int8, begin, &dims](const Machine& machine) -> Call {
        const auto attention = begin(machine);
        if (!attention) return {};
        working_set().fill_caches();
        const int heads = dims.queries_per_kv();
        const auto queries =
            std::make_shared<std::vector<float>>(random_values(product(heads, dims.head_dim), -0.1F, 0.1F));
        const auto sums = std::make_shared<std::vector<Softmax>>(product(machine.pool.size(), kTokens),
                                                                 Softmax(heads, dims.head_dim));
        return [machine, int8, heads, queries, sums, attention, &dims] {
          machine.pool.parallel_for(
              machine.pool.size(), 1, [&](std::int64_t first, std::int64_t last, int /*thread*/) {
                for (int i = static_cast<int>(first); i < static_cast<int>(last); ++i) {
                  const auto attend =
                      attention(working_set().cache(kAttentionBlock, dims.head_dim, int8, i), i);
                  for (int t = 0; t < kTokens; ++t) {
                    attend(queries->data(), heads,
                           (*sums)[product(i, kTokens) + static_cast<std::size_t>(t)].state());
                  }
                }
              });
        };
      });
}

using Attend = std::function<void(const float* queries, int heads, const AttentionState& state)>;
using Attention = std::function<Attend(const KvView& kv, int thread)>;

void add_attention_prefill(bool int8) {
  add_prefill_attention("attention", Limit::fp32, int8, [](const Machine& machine) -> Attention {
    return [machine](const KvView& kv, int /*thread*/) -> Attend {
      return [machine, kv](const float* queries, int heads, const AttentionState& state) {
        machine.kernels.attend(kv, dimensions().head_dim, queries, heads, 0, kAttentionBlock, state);
      };
    };
  });
}

// In 8-bit codes, making them included; on sets that have it.
void add_attention_codes(bool int8) {
  add_prefill_attention("attention_codes", Limit::integer, int8, [](const Machine& machine) -> Attention {
    if (machine.kernels.attend_codes == nullptr) return {};
    const auto rooms = std::make_shared<std::vector<cpu::KvCodeBlock>>();
    for (int i = 0; i < machine.pool.size(); ++i) rooms->emplace_back(dimensions().head_dim);
    return [machine, rooms](const KvView& kv, int thread) -> Attend {
      const int dim = dimensions().head_dim;
      const cpu::KvCodes codes =
          machine.kernels.encode_block(kv, dim, 0, (*rooms)[static_cast<std::size_t>(thread)].codes());
      return [machine, codes, dim](const float* queries, int heads, const AttentionState& state) {
        machine.kernels.attend_codes(codes, dim, queries, heads, state);
      };
    };
  });
}

// A block of 256 tokens into a cache.
void add_store(bool int8) {
  const model::Dimensions& dims = dimensions();
  const double bytes = cache_bytes(kAttentionBlock, int8) + 2.0 * kAttentionBlock * dims.head_dim * 4;
  add(
      std::string("prefill/store_kv/") + format(int8), Limit::cache,
      [bytes](int threads) { return bytes * threads; },
      [int8, &dims](const Machine& machine) -> Call {
        working_set().fill_caches();
        const auto rows = std::make_shared<std::vector<float>>(random_values(product(2, dims.head_dim)));
        return [machine, int8, rows, &dims] {
          machine.pool.parallel_for(
              machine.pool.size(), 1, [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
                for (int i = static_cast<int>(begin); i < static_cast<int>(end); ++i) {
                  const KvView kv = working_set().cache(kAttentionBlock, dims.head_dim, int8, i);
                  for (int p = 0; p < kAttentionBlock; ++p) {
                    machine.kernels.store_kv(kv, dims.head_dim, p, rows->data(),
                                             rows->data() + dims.head_dim);
                  }
                }
              });
        };
      });
}

// Inputs of all heads of a layer for `tokens` tokens.
struct DeltaNetInputs {
  explicit DeltaNetInputs(int tokens)
      : width(dimensions().conv_channels()),
        mixed(random_values(product(tokens, width), -0.1F, 0.1F)),
        gates(random_values(product(tokens, 2 * dimensions().value_heads), 0.5F, 1)),
        out(product(tokens, dimensions().value_rows())) {}

  DeltaNetRun run(int head, int tokens, float* state) {
    const model::Dimensions& dims = dimensions();
    DeltaNetRun run;
    run.state = state;
    run.queries = mixed.data() + product(head / dims.values_per_key(), dims.key_dim);
    run.keys = run.queries + dims.key_rows();
    run.values = mixed.data() + 2 * dims.key_rows() + product(head, dims.value_dim);
    run.alpha = gates.data() + head;
    run.beta = run.alpha + dims.value_heads;
    run.out = out.data() + product(head, dims.value_dim);
    run.query_stride = run.key_stride = run.value_stride = width;
    run.gate_stride = 2 * dims.value_heads;
    run.out_stride = dims.value_rows();
    run.tokens = tokens;
    run.key_dim = dims.key_dim;
    run.value_dim = dims.value_dim;
    return run;
  }

  int width;
  std::vector<float> mixed, gates, out;
};

// All heads of a layer, each with all its value rows, heads shared out over the threads.
Call delta_net_call(const Machine& machine, int tokens) {
  working_set().fill_floats();
  const auto inputs = std::make_shared<DeltaNetInputs>(tokens);
  return [machine, tokens, inputs, layer = 0]() mutable {
    const model::Dimensions& dims = dimensions();
    machine.pool.parallel_for(dims.value_heads, 1, [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
      for (int h = static_cast<int>(begin); h < static_cast<int>(end); ++h) {
        float* state =
            working_set().floats(product(dims.value_dim, dims.key_dim), layer * dims.value_heads + h);
        const DeltaNetRun run = inputs->run(h, tokens, state);
        for (int block = 0; block < dims.value_dim / cpu::kLanes; ++block) {
          machine.kernels.delta_net(run, block);
        }
      }
    });
    ++layer;
  };
}

void add_delta_net() {
  const model::Dimensions& dims = dimensions();
  const double state = static_cast<double>(product(dims.value_rows(), dims.key_dim));
  add("decode/delta_net/layer", Limit::memory, 2 * 4 * state,
      [](const Machine& machine) { return delta_net_call(machine, 1); });
  // Per element of the state: decay, update and two products, seven operations.
  add("prefill/delta_net/tokens:64", Limit::fp32, 7 * state * kRun,
      [](const Machine& machine) { return delta_net_call(machine, kRun); });
}

}  // namespace

void add_sequence_benchmarks() {
  for (const bool int8 : {false, true}) {
    for (const int depth : {4096, 32768}) add_attention_decode(depth, int8);
    add_attention_prefill(int8);
    add_attention_codes(int8);
    add_store(int8);
  }
  add_delta_net();
}

}  // namespace lily::benchmarks
