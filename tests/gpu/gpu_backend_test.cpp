// The whole backend on the emulator against the reference backend, and its promises: chunks, orders and
// reuse.
#include "backend/gpu/gpu_backend.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/gpu/emulator/emulated_device.hpp"
#include "backend/gpu/select.hpp"
#include "backend/reference/reference_backend.hpp"
#include "checkpoint/edited_checkpoint.hpp"
#include "gpu/watched_device.hpp"
#include "lily/error.hpp"
#include "lily/quantize.hpp"
#include "support/fixtures.hpp"
#include "support/raises.hpp"

namespace lily::gpu {
namespace {

using backend::Backend;
using emulator::LaneOrder;
using Logits = std::vector<std::vector<float>>;  // [position][vocabulary]
using testing::kMini;
using testing::kTinyQ4;

std::shared_ptr<const checkpoint::Checkpoint> checkpoint_of(const std::filesystem::path& folder) {
  return checkpoint::Checkpoint::open(folder);
}

std::unique_ptr<Backend> open(const std::filesystem::path& folder, LaneOrder order = LaneOrder::forward,
                              int threads = 2, KvFormat kv = KvFormat::f16) {
  return open_gpu_backend(emulator::open_device(threads, order), checkpoint_of(folder), kv, threads, {});
}

std::vector<TokenId> tokens(int count) {
  std::vector<TokenId> ids;
  for (int i = 0; i < count; ++i) {
    ids.push_back(static_cast<TokenId>(static_cast<std::uint32_t>(i) * 2654435761U % 500));
  }
  return ids;
}

// Logits of all positions: `prefilled` tokens in pieces of `piece`, the rest decoded.
Logits run(Backend& backend, backend::Sequence& sequence, const std::vector<TokenId>& ids, int prefilled,
           int piece) {
  Logits all(ids.size());
  std::vector<float> logits(static_cast<std::size_t>(backend.dimensions().vocabulary));
  backend::PrefillControl control;
  control.every_position = [&](int position, std::span<const float> row) {
    all[static_cast<std::size_t>(position)].assign(row.begin(), row.end());
  };
  for (int done = 0; done < prefilled; done += piece) {
    const auto count = static_cast<std::size_t>(std::min(piece, prefilled - done));
    backend.prefill(sequence, std::span(ids).subspan(static_cast<std::size_t>(done), count), logits, control);
  }
  for (auto i = static_cast<std::size_t>(prefilled); i < ids.size(); ++i) {
    backend.decode(sequence, ids[i], logits);
    all[i] = logits;
  }
  return all;
}

Logits run(Backend& backend, const std::vector<TokenId>& ids, int prefilled, int piece) {
  const auto sequence = backend.new_sequence(static_cast<int>(ids.size()));
  return run(backend, *sequence, ids, prefilled, piece);
}

std::filesystem::path quantized_to_8_bits(const testing::TemporaryFolder& folder) {
  QuantizeOptions options;
  options.model = testing::kTinyBf16;
  options.out = folder.path() / "model";
  options.bits = 8;
  quantize(options);
  return options.out;
}

// The largest logit error of the median position, and the share of positions with another best token.
struct Difference {
  double median = 0, other_argmax = 0;
};
Difference compare(const Logits& found, const Logits& expected) {
  Difference difference;
  std::vector<double> largest;
  for (std::size_t p = 0; p < expected.size(); ++p) {
    largest.push_back(testing::max_abs_difference(found[p], expected[p]));
    if (testing::argmax(found[p]) != testing::argmax(expected[p])) {
      difference.other_argmax += 1.0 / static_cast<double>(expected.size());
    }
  }
  std::nth_element(largest.begin(), largest.begin() + largest.size() / 2, largest.end());
  difference.median = largest[largest.size() / 2];
  return difference;
}

// Decode keeps 16 bits of its inputs, and halves of keys and values: it leaves what the CPU backend's exact
// mode leaves, 1.3e-3 where logits have a standard deviation of 2.8 (random weights), 2.5e-3 on lily-mini.
// Prefill multiplies halves: 1.2e-2 and 1.4e-2.
struct ModelCase {
  const char* name;
  std::filesystem::path folder;
  double decode, prefill;
};
void PrintTo(const ModelCase& model, std::ostream* out) { *out << model.name; }

class GpuBackendOnModels : public ::testing::TestWithParam<ModelCase> {};

TEST_P(GpuBackendOnModels, PrefillAndDecodeAgreeWithTheReference) {
  const auto ids = tokens(48);
  const auto reference =
      reference::open_reference_backend(checkpoint_of(GetParam().folder), available_cores());
  const Logits expected = run(*reference, ids, 48, 48);
  const auto backend = open(GetParam().folder);
  const Difference prefilled = compare(run(*backend, ids, 48, 48), expected);
  EXPECT_LT(prefilled.median, GetParam().prefill);
  EXPECT_LE(prefilled.other_argmax, 0.021);
  const Difference decoded = compare(run(*backend, ids, 0, 1), expected);
  EXPECT_LT(decoded.median, GetParam().decode);
  EXPECT_LE(decoded.other_argmax, 0.021);
}

INSTANTIATE_TEST_SUITE_P(, GpuBackendOnModels,
                         ::testing::Values(ModelCase{"tiny", kTinyQ4, 2e-3, 3e-2},
                                           ModelCase{"mini", kMini, 4e-3, 3e-2}),
                         [](const auto& model) { return model.param.name; });

TEST(GpuBackend, OrdersOfLanesAndDispatchesGiveTheSameBits) {
  const auto ids = tokens(20);
  const Logits expected = run(*open(kTinyQ4), ids, 17, 17);
  EXPECT_EQ(run(*open(kTinyQ4, LaneOrder::backward), ids, 17, 17), expected);
  EXPECT_EQ(run(*open(kTinyQ4, LaneOrder::shuffled), ids, 17, 17), expected);
  EXPECT_EQ(run(*open(kTinyQ4, LaneOrder::forward, 1), ids, 17, 17), expected);
}

TEST(GpuBackend, DispatchesOfALongPromptMayRunInAnyOrder) {
  const auto ids = tokens(66);  // on matrix tiles and in chunks
  EXPECT_EQ(run(*open(kTinyQ4, LaneOrder::backward), ids, 66, 66), run(*open(kTinyQ4), ids, 66, 66));
}

// With those of an 8-bit cache, of few tokens and of 8-bit weights. The order by levels shows a read or a
// write that was not declared.
TEST(GpuBackend, DispatchesOfEveryWayThroughTheModelMayRunInAnyOrder) {
  const testing::TemporaryFolder folder;
  const auto eight_bit = quantized_to_8_bits(folder);
  struct Way {
    std::filesystem::path folder;
    KvFormat kv;
    int prefilled, decoded;
  };
  for (const Way& way : {Way{kTinyQ4, KvFormat::int8, 20, 2}, Way{kTinyQ4, KvFormat::int8, 5, 0},
                         Way{kTinyQ4, KvFormat::f16, 5, 0}, Way{eight_bit, KvFormat::f16, 20, 1}}) {
    const auto ids = tokens(way.prefilled + way.decoded);
    const auto logits = [&](LaneOrder order) {
      return run(*open(way.folder, order, 2, way.kv), ids, way.prefilled, way.prefilled);
    };
    const Logits expected = logits(LaneOrder::forward);
    EXPECT_TRUE(std::isfinite(expected.back()[0]));
    EXPECT_EQ(logits(LaneOrder::backward), expected) << way.prefilled;
  }
}

TEST(GpuBackend, EightBitWeightsAgreeWithTheReference) {
  const testing::TemporaryFolder folder;
  const auto eight_bit = quantized_to_8_bits(folder);
  const auto ids = tokens(24);
  const auto reference = reference::open_reference_backend(checkpoint_of(eight_bit), available_cores());
  const Logits expected = run(*reference, ids, 24, 24);
  const auto backend = open(eight_bit);
  EXPECT_LT(compare(run(*backend, ids, 24, 24), expected).median, 3e-2);
  EXPECT_LT(compare(run(*backend, ids, 0, 1), expected).median, 2e-3);
}

TEST(GpuBackend, PiecesOfAPromptStayNear) {
  // Pieces take other kernels than the whole: one token decode's, up to 16 those for each token on its own,
  // up to 32 those for few tokens, up to 63 the scan.
  const auto ids = tokens(66);
  const auto backend = open(kTinyQ4);
  const Logits whole = run(*backend, ids, 66, 66);
  for (const int piece : {5, 20, 33}) {
    EXPECT_LT(compare(run(*backend, ids, 66, piece), whole).median, 3e-2) << piece;
  }
}

TEST(GpuBackend, EightBitKvStaysNear) {
  const auto ids = tokens(24);
  const Logits halves = run(*open(kTinyQ4), ids, 20, 20);
  const Logits codes = run(*open(kTinyQ4, LaneOrder::forward, 2, KvFormat::int8), ids, 20, 20);
  EXPECT_NE(codes, halves);
  EXPECT_LT(compare(codes, halves).median, 3e-2);
}

TEST(GpuBackend, AResetSequenceIsAsNew) {
  const auto backend = open(kTinyQ4);
  const auto ids = tokens(10);
  const auto sequence = backend->new_sequence(64);
  const Logits first = run(*backend, *sequence, ids, 7, 7);
  sequence->reset();
  EXPECT_EQ(sequence->position(), 0);
  EXPECT_EQ(run(*backend, *sequence, ids, 7, 7), first);
}

// A request may have left anything there, such as what overflowed: no number of it reaches the next one.
TEST(GpuBackend, AResetSequenceIsAsNewWhateverItsMemoryHolds) {
  struct Way {
    KvFormat kv;
    int prefilled, piece;
  };
  for (const Way& way : {Way{KvFormat::f16, 65, 65}, Way{KvFormat::f16, 9, 5}, Way{KvFormat::int8, 20, 20}}) {
    DeviceCalls calls;
    const auto backend = open_gpu_backend(std::make_unique<WatchedDevice>(emulator::open_device(2), calls),
                                          checkpoint_of(kTinyQ4), way.kv, 2, {});
    const std::size_t weights = calls.blocks.size();
    const auto sequence = backend->new_sequence(80);
    const auto answer = [&] {
      Logits rows = run(*backend, *sequence, tokens(way.prefilled + 1), way.prefilled, way.piece);
      backend::SamplingRules rules;
      rules.top_k = 20;
      rules.top_p = 0.9F;
      rules.random_key = 5;
      rules.allowed = {{0, 512}};
      const auto stream = backend->stream(*sequence, rules, 2);
      for (int i = 0; i < 2; ++i) rows.push_back({static_cast<float>(stream->next())});
      return rows;
    };
    const Logits expected = answer();
    for (std::size_t i = weights; i < calls.blocks.size(); ++i) {
      std::memset(calls.blocks[i].address, 0xff, calls.blocks[i].bytes);  // NaN
    }
    sequence->reset();
    EXPECT_EQ(answer(), expected) << way.piece;
  }
}

// Whatever its length: what a prompt's passes need is written before the first one, nothing is read back or
// allocated between them, and no more than two are under way.
TEST(GpuBackend, APromptOfSeveralPassesIsWrittenOnceAndReadOnce) {
  DeviceCalls calls;
  const auto backend =
      open_gpu_backend(std::make_unique<WatchedDevice>(emulator::open_device(1), calls, false),
                       checkpoint_of(kTinyQ4), KvFormat::f16, 1, {});
  constexpr int kPasses = 3;
  const int rows = static_cast<int>(prefill_rows(4)), length = (kPasses - 1) * rows + 100;
  const auto sequence = backend->new_sequence(length);
  std::vector<float> logits(512);
  std::vector<int> progress;
  backend::PrefillControl control;
  control.progress = [&](int done, int total) {
    EXPECT_EQ(total, length);
    progress.push_back(done);
    EXPECT_LE(calls.marks - calls.waits, 1);  // the pass that runs; the other one is recorded
  };
  DeviceCalls expected = calls;
  expected.writes += 1;
  expected.clears += 2;  // a new sequence's states, and the experts' counts
  expected.runs += kPasses * backend->dimensions().layer_count() + 1;
  expected.marks += kPasses;
  expected.waits += kPasses - 1;
  expected.reads += 1;
  backend->prefill(*sequence, tokens(length), logits, control);
  EXPECT_EQ(calls, expected);
  EXPECT_EQ(progress, (std::vector<int>{rows, 2 * rows, length}));
}

TEST(GpuBackend, RefusesWhatDoesNotFit) {
  const auto backend = open(kTinyQ4);
  const auto sequence = backend->new_sequence(4);
  std::vector<float> logits(512);
  const auto kind = [&](std::vector<TokenId> ids) {
    return testing::raised([&] { backend->prefill(*sequence, ids, logits, {}); }).kind();
  };
  EXPECT_EQ(kind({1, 2, 3, 4, 5}), ErrorKind::too_long);
  EXPECT_EQ(kind({1, 512}), ErrorKind::bad_input);
  EXPECT_EQ(kind({-1}), ErrorKind::bad_input);
  EXPECT_EQ(sequence->position(), 0);
  std::stop_source stop;
  stop.request_stop();
  const std::vector<TokenId> ids{1, 2};
  EXPECT_EQ(
      testing::raised([&] { backend->prefill(*sequence, ids, logits, {.stop = stop.get_token()}); }).kind(),
      ErrorKind::cancelled);
}

TEST(GpuBackend, MemoryOfASequenceIsWhatItSays) {
  for (const KvFormat kv : {KvFormat::f16, KvFormat::int8}) {
    DeviceCalls calls;
    const auto watched = open_gpu_backend(std::make_unique<WatchedDevice>(emulator::open_device(1), calls),
                                          checkpoint_of(kTinyQ4), kv, 1, {});
    for (const int capacity : {1, 40, 700}) {
      const std::size_t before = calls.blocks.size();
      const auto sequence = watched->new_sequence(capacity);
      std::uint64_t taken = 0;
      for (std::size_t i = before; i < calls.blocks.size(); ++i) taken += calls.blocks[i].bytes;
      EXPECT_EQ(watched->sequence_bytes(capacity), taken) << capacity;
    }
  }
  const auto backend = open(kTinyQ4);
  EXPECT_GT(backend->sequence_bytes(4096), backend->sequence_bytes(64));
  EXPECT_GE(backend->sequence_bytes(4096) - backend->sequence_bytes(2048),
            2048U * 2 * 512 * 2);  // KV in halves
}

}  // namespace
}  // namespace lily::gpu
