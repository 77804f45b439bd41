// The whole CPU backend against the reference backend, and its promises: threads, chunks and reuse do not
// change a bit of the result.
#include "backend/cpu/cpu_backend.hpp"

#include <algorithm>

#include "backend/cpu/forward.hpp"
#include "backend/reference/reference_backend.hpp"
#include "kernels/kernel_test.hpp"
#include "lily/error.hpp"
#include "support/fixtures.hpp"

namespace lily::cpu {
namespace {

using backend::Backend;
using backend::PrefillControl;
using Logits = std::vector<std::vector<float>>;  // [position][vocabulary]

std::shared_ptr<const checkpoint::Checkpoint> tiny() {
  static const auto checkpoint = checkpoint::Checkpoint::open(testing::kTinyQ4);
  return checkpoint;
}

std::vector<TokenId> tokens(int count) {
  std::vector<TokenId> ids;
  for (int i = 0; i < count; ++i) {
    ids.push_back(static_cast<TokenId>(static_cast<std::uint32_t>(i) * 2654435761U % 500));
  }
  return ids;
}

std::unique_ptr<Backend> open(Activations activations, KvFormat kv = KvFormat::f16, int threads = 2,
                              const std::string& set = {}) {
  CpuOptions options;
  options.threads = threads;
  options.activations = activations;
  options.kv = kv;
  options.instruction_set = set;
  return open_cpu_backend(tiny(), options);
}

// Logits of all positions: `prefilled` tokens at once in pieces of `piece`, the rest decoded.
Logits run(Backend& backend, const std::vector<TokenId>& ids, int prefilled, int piece,
           backend::Sequence* reused = nullptr) {
  const auto vocabulary = static_cast<std::size_t>(backend.dimensions().vocabulary);
  const auto own = reused == nullptr ? backend.new_sequence(static_cast<int>(ids.size())) : nullptr;
  backend::Sequence& sequence = reused == nullptr ? *own : *reused;
  Logits all(ids.size());
  std::vector<float> logits(vocabulary);
  PrefillControl control;
  control.every_position = [&](int position, std::span<const float> row) {
    all[static_cast<std::size_t>(position)].assign(row.begin(), row.end());
  };
  const std::span<const TokenId> prompt(ids.data(), static_cast<std::size_t>(prefilled));
  for (int done = 0; done < prefilled; done += piece) {
    const auto count = static_cast<std::size_t>(std::min(piece, prefilled - done));
    backend.prefill(sequence, prompt.subspan(static_cast<std::size_t>(done), count), logits, control);
  }
  for (auto i = static_cast<std::size_t>(prefilled); i < ids.size(); ++i) {
    backend.decode(sequence, ids[i], logits);
    all[i] = logits;
  }
  return all;
}

using testing::argmax;

// Experts are chosen by comparing logits, so a rounding that flips a near tie moves one position far: what is
// held is the median position, the share of positions that moved, and the share of other argmaxes.
struct Difference {
  double median = 0;
  double moved = 0;         // share of positions beyond 10 times the median's bound
  double other_argmax = 0;  // share
};

Difference compare(const Logits& found, const Logits& expected, double bound) {
  Difference difference;
  std::vector<double> largest;
  for (std::size_t p = 0; p < expected.size(); ++p) {
    largest.push_back(testing::max_abs_difference(found[p], expected[p]));
    const double share = 1.0 / static_cast<double>(expected.size());
    if (!(largest.back() < 10 * bound)) difference.moved += share;
    if (argmax(found[p]) != argmax(expected[p])) difference.other_argmax += share;
  }
  std::nth_element(largest.begin(), largest.begin() + largest.size() / 2, largest.end());
  difference.median = largest[largest.size() / 2];
  return difference;
}

void expect_near(const Logits& found, const Logits& expected, double bound, double moved,
                 double other_argmax) {
  const Difference difference = compare(found, expected, bound);
  EXPECT_LT(difference.median, bound);
  EXPECT_LE(difference.moved, moved);
  EXPECT_LE(difference.other_argmax, other_argmax);
}

const Logits& reference_logits() {
  static const Logits logits = [] {
    const auto reference = reference::open_reference_backend(tiny(), available_cores());
    return run(*reference, tokens(600), 600, 600);
  }();
  return logits;
}

// Medians of the largest logit error of a position; on these random weights logits have a standard deviation
// of 2.8. Two terms leave 15 bits of each activation, 8-bit KV adds its own rounding, one term is an
// approximation by choice.
constexpr double kExact = 2e-3, kExactInt8 = 8e-3, kFast = 0.3;

class CpuBackend : public ::testing::TestWithParam<const Kernels*> {
 protected:
  Logits logits(Activations activations, KvFormat kv) {
    return run(*open(activations, kv, 2, GetParam()->name), tokens(600), 560, 560);
  }
};

TEST_P(CpuBackend, ExactActivationsAgreeWithTheReference) {
  expect_near(logits(Activations::exact, KvFormat::f16), reference_logits(), kExact, 0.01, 0.005);
}

TEST_P(CpuBackend, EightBitKvAgreesWithTheReference) {
  expect_near(logits(Activations::exact, KvFormat::int8), reference_logits(), kExactInt8, 0.02, 0.005);
}

TEST_P(CpuBackend, FastActivationsStayNear) {
  expect_near(logits(Activations::fast, KvFormat::f16), reference_logits(), kFast, 0.02, 0.08);
}

LILY_FOR_ALL_INSTRUCTION_SETS(CpuBackend);

TEST(CpuBackendPromises, AutomaticIsFastInPrefillAndExactInDecode) {
  const auto automatic = open(Activations::automatic), fast = open(Activations::fast),
             exact = open(Activations::exact);
  const std::vector<TokenId> ids = tokens(40);
  EXPECT_EQ(run(*automatic, ids, 40, 40), run(*fast, ids, 40, 40));
  EXPECT_EQ(run(*automatic, ids, 0, 1), run(*exact, ids, 0, 1));
}

TEST(CpuBackendPromises, ThreadsDoNotChangeABit) {
  const std::vector<TokenId> ids = tokens(300);
  const Logits one = run(*open(Activations::automatic, KvFormat::f16, 1), ids, 280, 280);
  for (const int threads : {2, 3, 7}) {
    EXPECT_EQ(run(*open(Activations::automatic, KvFormat::f16, threads), ids, 280, 280), one) << threads;
  }
}

TEST(CpuBackendPromises, PiecesOfAPromptGiveTheSameBits) {
  const auto backend = open(Activations::exact);
  const int mixer = Prefiller::kChunk, experts = select_kernels({}).expert_chunk;
  const std::vector<TokenId> ids = tokens(experts + 90);
  const int count = static_cast<int>(ids.size());
  const Logits whole = run(*backend, ids, count, count);
  for (const int piece : {1, 2, 3, 5, 63, 64, 65, mixer - 1, mixer + 1, experts - 1, experts + 1}) {
    EXPECT_EQ(run(*backend, ids, count, piece), whole) << piece;
  }
  const std::vector<TokenId> start(ids.begin(), ids.begin() + 500);
  EXPECT_EQ(run(*backend, start, 200, 200), Logits(whole.begin(), whole.begin() + 500))
      << "decoded from position 200";
}

TEST(CpuBackendPromises, ExpertsMayTakeMoreTokensThanMixers) {
  const model::Dimensions& dims = tiny()->dimensions();
  ThreadPool pool(2);
  const Weights weights = load_weights(*tiny(), pool, {});
  const std::vector<TokenId> ids = tokens(2 * Prefiller::kChunk + 90);
  const auto logits = [&](int expert_chunk, int expert_tokens, int blocks_at_once) {
    Kernels kernels = select_kernels({});
    kernels.expert_chunk = expert_chunk;
    kernels.expert_tokens = expert_tokens;
    kernels.blocks_at_once = blocks_at_once;
    Prefiller prefiller({dims, weights, kernels, pool}, kernels.fast_rows);
    CpuSequence sequence(dims, static_cast<int>(ids.size()), KvFormat::f16);
    std::vector<float> last(static_cast<std::size_t>(dims.vocabulary));
    prefiller.run(sequence, ids, last, {});
    return last;
  };
  const std::vector<float> one_chunk_each = logits(Prefiller::kChunk, 64, 4);
  EXPECT_EQ(logits(2 * Prefiller::kChunk, 128, 64), one_chunk_each);
  EXPECT_EQ(logits(4 * Prefiller::kChunk, 1, 1), one_chunk_each);
}

TEST(CpuBackendPromises, CountsWhatPrefillWorksIn) {
  const auto backend = open(Activations::automatic);
  const model::Dimensions& dims = backend->dimensions();
  const auto chunk = static_cast<std::uint64_t>(select_kernels({}).expert_chunk);
  // Of each token of a chunk the outputs of its experts and of the shared one, and its residual.
  const std::uint64_t rows = chunk * static_cast<std::uint64_t>(dims.experts_per_token + 2);
  const std::uint64_t outputs = rows * static_cast<std::uint64_t>(dims.hidden_size) * sizeof(float);
  EXPECT_GT(backend->scratch_bytes(), outputs);
  EXPECT_LT(backend->scratch_bytes(), 3 * outputs + (std::uint64_t{64} << 20));
}

TEST(CpuBackendPromises, WhatRanBeforeDoesNotMatter) {
  const auto backend = open(Activations::automatic);
  const std::vector<TokenId> ids = tokens(200);
  const Logits fresh = run(*backend, ids, 150, 150);
  const auto sequence = backend->new_sequence(700);
  std::vector<TokenId> other = tokens(700);
  std::reverse(other.begin(), other.end());
  run(*backend, other, 650, 650, sequence.get());
  sequence->reset();
  EXPECT_EQ(sequence->position(), 0);
  EXPECT_EQ(run(*backend, ids, 150, 150, sequence.get()), fresh);
}

TEST(CpuBackendPromises, LongContextsAreSplitInOrder) {
  const auto one = open(Activations::exact, KvFormat::f16, 1),
             three = open(Activations::exact, KvFormat::f16, 3);
  std::vector<TokenId> ids = tokens(2200);  // three splits of attention in decode
  const Logits a = run(*one, ids, 2190, 2190), b = run(*three, ids, 2190, 2190);
  EXPECT_EQ(a, b);
  const Logits decoded_early = run(*one, ids, 2100, 2100);
  expect_near(decoded_early, a, kExact, 0.01, 0.005);
}

TEST(CpuBackendPromises, RefusesWhatDoesNotFitBeforeWorking) {
  const auto backend = open(Activations::automatic);
  const auto sequence = backend->new_sequence(4);
  std::vector<float> logits(static_cast<std::size_t>(backend->dimensions().vocabulary));
  const auto kind_of = [&](const std::vector<TokenId>& ids) {
    try {
      backend->prefill(*sequence, ids, logits, {});
    } catch (const Error& error) {
      return error.kind();
    }
    return ErrorKind::internal;
  };
  EXPECT_EQ(kind_of({1, 2, 3, 4, 5}), ErrorKind::too_long);
  EXPECT_EQ(kind_of({1, 512}), ErrorKind::bad_input);
  EXPECT_EQ(kind_of({-1}), ErrorKind::bad_input);
  EXPECT_EQ(sequence->position(), 0);
  backend->prefill(*sequence, std::vector<TokenId>{1, 2, 3}, logits, {});
  backend->decode(*sequence, 4, logits);
  EXPECT_THROW(backend->decode(*sequence, 5, logits), Error);
  EXPECT_EQ(sequence->position(), 4);
}

TEST(CpuBackendPromises, AStopRequestEndsPrefillAtTheNextLayer) {
  const auto backend = open(Activations::automatic);
  const auto sequence = backend->new_sequence(2000);
  std::vector<float> logits(static_cast<std::size_t>(backend->dimensions().vocabulary));
  std::stop_source stop;
  PrefillControl control;
  control.stop = stop.get_token();
  int calls = 0;
  control.progress = [&](int done, int total) {
    EXPECT_GT(done, 0);
    EXPECT_EQ(total, 2000);
    if (++calls == 2) stop.request_stop();
  };
  try {
    backend->prefill(*sequence, tokens(2000), logits, control);
    FAIL() << "not cancelled";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::cancelled);
  }
  EXPECT_EQ(calls, 2);
}

TEST(CpuBackendPromises, UnquantizedMatricesAreRefusedByName) {
  const auto bf16 = checkpoint::Checkpoint::open(testing::kTinyBf16);
  try {
    open_cpu_backend(bf16, {});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_NE(std::string(error.what()).find("in_proj_qkv"), std::string::npos) << error.what();
  }
}

TEST(CpuBackendPromises, UnknownInstructionSetsAreRefusedByName) {
  try {
    open(Activations::automatic, KvFormat::f16, 1, "mmx");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'mmx'"), std::string::npos) << error.what();
  }
}

TEST(CpuBackendPromises, TheLimitsOfTheMachineAreMeasured) {
  const backend::MachineLimits limits = open(Activations::automatic)->measure_limits();
  EXPECT_GT(limits.stream_gb_per_s, 0.1);
  EXPECT_GT(limits.int8_tera_ops, 0.001);
}

}  // namespace
}  // namespace lily::cpu
