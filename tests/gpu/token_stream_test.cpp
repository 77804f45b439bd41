// Tokens that the device chooses: the sampler's, with no work for the host between them, and nothing left of
// the steps that ran too far.
#include "backend/gpu/token_stream.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "backend/gpu/cuda/cuda_device.hpp"
#include "backend/gpu/emulator/emulated_device.hpp"
#include "backend/gpu/gpu_backend.hpp"
#include "engine/sampler.hpp"
#include "engine/token_source.hpp"
#include "gpu/watched_device.hpp"
#include "lily/engine.hpp"
#include "lily/error.hpp"
#include "support/fixtures.hpp"
#include "support/raises.hpp"

namespace lily::gpu {
namespace {

using backend::Backend;
using backend::Sequence;
using emulator::LaneOrder;
using engine::SamplingSettings;

const std::vector<TokenId> kPrompt{3, 141, 59, 26, 50};
constexpr int kCapacity = 64;

struct StreamCase {
  const char* name;
  std::unique_ptr<Device> (*open)(LaneOrder order);  // a GPU has orders of its own
};
void PrintTo(const StreamCase& device, std::ostream* out) { *out << device.name; }

// One backend over the smallest model, and what its device was asked for.
class TokenStreamTest : public ::testing::TestWithParam<StreamCase> {
 protected:
  void SetUp() override {
    try {
      GetParam().open(LaneOrder::forward);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      GTEST_SKIP() << error.what();
    }
  }

  std::unique_ptr<Backend> open(LaneOrder order = LaneOrder::forward, KvFormat kv = KvFormat::f16) {
    return open_gpu_backend(std::make_unique<WatchedDevice>(GetParam().open(order), calls_),
                            checkpoint::Checkpoint::open(testing::kTinyQ4), kv, 2, {});
  }

  // A sequence that has read the prompt; the logits are in logits_.
  std::unique_ptr<Sequence> begin(Backend& backend, std::span<const TokenId> prompt = kPrompt) {
    auto sequence = backend.new_sequence(kCapacity);
    logits_.resize(static_cast<std::size_t>(backend.dimensions().vocabulary));
    backend.prefill(*sequence, prompt, logits_, {});
    return sequence;
  }

  std::unique_ptr<backend::TokenStream> stream(Backend& backend, Sequence& sequence,
                                               const SamplingSettings& settings, int limit) {
    return engine::open_tokens(backend, sequence, logits_, choice(settings), limit);
  }

  // The same tokens by the engine's sampler, step by step.
  std::vector<TokenId> sampled(Backend& backend, const SamplingSettings& settings, int count) {
    const auto sequence = begin(backend);
    engine::Sampler sampler(settings, allowed_, kPrompt, choice(settings).is_control);
    std::vector<TokenId> ids;
    while (true) {
      ids.push_back(sampler.choose(logits_));
      if (static_cast<int>(ids.size()) == count) return ids;
      sampler.accept(ids.back());
      backend.decode(*sequence, ids.back(), logits_);
    }
  }

  engine::TokenChoice choice(const SamplingSettings& settings) const {
    return {settings, allowed_, kPrompt, [](TokenId id) { return id % 50 == 0; }};
  }

  static std::vector<TokenId> take(backend::TokenStream& stream, int count) {
    std::vector<TokenId> ids;
    for (int i = 0; i < count; ++i) ids.push_back(stream.next());
    return ids;
  }

  DeviceCalls calls_;
  std::vector<float> logits_;
  engine::TokenRanges allowed_{500, [](TokenId id) { return id % 7 != 3; }};  // 500 to 511 have no token
  const SamplingSettings greedy_{.temperature = 0};
};

TEST_P(TokenStreamTest, TokensAreTheSamplers) {
  const auto backend = open();
  SamplingSettings penalties = greedy_;
  penalties.repetition_penalty = 1.3F;
  penalties.presence_penalty = 0.4F;
  penalties.frequency_penalty = 0.7F;
  SamplingSettings biased{.temperature = 0.8F, .min_p = 0.02F, .seed = 11};
  biased.logit_bias = {{17, 5.0F}, {18, 5.0F}, {20, -100.0F}};
  SamplingSettings all = penalties;
  all.temperature = 1;
  all.top_k = 40;
  all.top_p = 0.9F;
  all.seed = 5;
  const std::vector<SamplingSettings> cases{
      greedy_,
      penalties,
      biased,
      all,
      {.temperature = 1, .top_p = 0.95F, .seed = 3},
      {.temperature = 1, .top_k = 1000, .seed = 4},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto sequence = begin(*backend);
    EXPECT_EQ(take(*stream(*backend, *sequence, cases[i], 5), 5), sampled(*backend, cases[i], 5)) << i;
  }
}

TEST_P(TokenStreamTest, OrdersOfDispatchesAndRunsGiveTheSameTokens) {
  const SamplingSettings settings{.temperature = 1, .top_k = 50, .top_p = 0.9F, .seed = 8};
  std::vector<std::vector<TokenId>> ids;
  for (const LaneOrder order :
       {LaneOrder::forward, LaneOrder::forward, LaneOrder::backward, LaneOrder::shuffled}) {
    const auto backend = open(order);
    for (const SamplingSettings& each : {settings, greedy_}) {
      const auto sequence = begin(*backend);
      ids.push_back(take(*stream(*backend, *sequence, each, 4), 4));
    }
  }
  for (std::size_t i = 2; i < ids.size(); ++i) EXPECT_EQ(ids[i], ids[i % 2]) << i;
}

// Whatever ran ahead: the sequence holds the tokens given but the last, and goes on as if nothing had.
TEST_P(TokenStreamTest, StepsThatRanAheadAreUndone) {
  const std::vector<std::pair<KvFormat, std::vector<int>>> cases{{KvFormat::f16, {0, 1, 2, 3, 4}},
                                                                 {KvFormat::int8, {3}}};
  for (const auto& [kv, counts] : cases) {
    const auto backend = open(LaneOrder::forward, kv);
    for (const int given : counts) {
      const auto sequence = begin(*backend);
      const std::vector<TokenId> ids = take(*stream(*backend, *sequence, greedy_, 20), given);
      const int kept = std::max(given - 1, 0);
      ASSERT_EQ(sequence->position(), static_cast<int>(kPrompt.size()) + kept);

      const auto plain = begin(*backend);
      std::vector<float> expected(logits_.size());
      for (int i = 0; i < kept; ++i) backend->decode(*plain, ids[static_cast<std::size_t>(i)], expected);
      // Other tokens than those that ran ahead: decoded, then as a prompt of several.
      backend->decode(*plain, 77, expected);
      backend->decode(*sequence, 77, logits_);
      ASSERT_EQ(logits_, expected) << given;
      backend->prefill(*plain, std::vector<TokenId>{9, 8, 7}, expected, {});
      backend->prefill(*sequence, std::vector<TokenId>{9, 8, 7}, logits_, {});
      ASSERT_EQ(logits_, expected) << given;
    }
  }
}

TEST_P(TokenStreamTest, AStreamGoesOnWhereAnotherEnded) {
  const auto backend = open();
  const auto sequence = begin(*backend);
  const std::vector<TokenId> whole = take(*stream(*backend, *sequence, greedy_, 8), 8);
  sequence->reset();
  backend->prefill(*sequence, kPrompt, logits_, {});
  std::vector<TokenId> parts = take(*stream(*backend, *sequence, greedy_, 9), 3);
  backend->decode(*sequence, parts.back(), logits_);
  const std::vector<TokenId> rest = take(*stream(*backend, *sequence, greedy_, 9), 5);
  parts.insert(parts.end(), rest.begin(), rest.end());
  EXPECT_EQ(parts, whole);
}

TEST_P(TokenStreamTest, SequencesMayTakeTurns) {
  const auto backend = open();
  const SamplingSettings drawn{.temperature = 1, .top_k = 30, .seed = 2};
  const std::vector<TokenId> one = sampled(*backend, greedy_, 6), two = sampled(*backend, drawn, 6);
  const auto first = begin(*backend), second = begin(*backend);
  const auto a = stream(*backend, *first, greedy_, 6), b = stream(*backend, *second, drawn, 6);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(a->next(), one[i]);
    EXPECT_EQ(b->next(), two[i]);
  }
}

// Per token: one prepared plan, one mark, one wait. Nothing is allocated, recorded or copied.
TEST_P(TokenStreamTest, ATokenIsOneReplayAndOneMark) {
  const auto backend = open();
  for (const SamplingSettings& settings :
       {greedy_, SamplingSettings{.temperature = 1, .top_k = 20, .repetition_penalty = 1.1F}}) {
    const auto sequence = begin(*backend);
    const auto tokens = stream(*backend, *sequence, settings, 20);
    tokens->next();
    for (int token = 0; token < 4; ++token) {
      DeviceCalls expected = calls_;
      ++expected.replays;
      ++expected.marks;
      ++expected.waits;
      tokens->next();
      EXPECT_EQ(calls_, expected);
    }
  }
}

TEST_P(TokenStreamTest, PlansArePreparedOncePerSequence) {
  const auto backend = open();
  const auto sequence = begin(*backend);
  take(*stream(*backend, *sequence, greedy_, 4), 4);
  const int prepared = calls_.prepared;
  EXPECT_EQ(prepared, 2);  // the first choice, and the step
  sequence->reset();
  backend->prefill(*sequence, kPrompt, logits_, {});
  take(*stream(*backend, *sequence, greedy_, 4), 4);
  EXPECT_EQ(calls_.prepared, prepared);
}

TEST_P(TokenStreamTest, RunsTwoStepsAheadAndNeverBeyondTheLimit) {
  const auto backend = open();
  const auto sequence = begin(*backend);
  const int before = calls_.replays;
  const auto tokens = stream(*backend, *sequence, greedy_, 5);
  const std::vector<int> started{3, 4, 5, 5, 5};
  for (const int expected : started) {
    tokens->next();
    EXPECT_EQ(calls_.replays - before, expected);
  }
  EXPECT_EQ(testing::raised([&] { tokens->next(); }).kind(), ErrorKind::internal);
}

// The last token needs no position; a sequence with more room gives the same ones.
TEST_P(TokenStreamTest, RunsToTheLastPosition) {
  for (const KvFormat kv : {KvFormat::f16, KvFormat::int8}) {
    const auto backend = open(LaneOrder::forward, kv);
    const auto roomy = begin(*backend), full = backend->new_sequence(static_cast<int>(kPrompt.size()) + 4);
    const std::vector<TokenId> expected = take(*stream(*backend, *roomy, greedy_, 5), 5);
    backend->prefill(*full, kPrompt, logits_, {});
    EXPECT_EQ(take(*stream(*backend, *full, greedy_, 5), 5), expected);
    EXPECT_EQ(full->position(), full->capacity());
    EXPECT_EQ(testing::raised([&] { backend->decode(*full, 1, logits_); }).kind(), ErrorKind::too_long);
  }
}

// The device may still be at the steps that ran ahead, which write to the sequence's memory.
TEST_P(TokenStreamTest, ASequenceIsFreedAfterTheStepsThatRanAhead) {
  const auto backend = open();
  auto sequence = begin(*backend);
  stream(*backend, *sequence, greedy_, 9)->next();
  const int finishes = calls_.finishes;
  sequence.reset();
  EXPECT_EQ(calls_.finishes, finishes + 1);
}

TEST_P(TokenStreamTest, RefusesWhatDoesNotFitAndLogitsThatAreNotThere) {
  const auto backend = open();
  const auto sequence = begin(*backend);
  const int room = kCapacity - static_cast<int>(kPrompt.size());
  const auto kind = [&](int limit) {
    return testing::raised([&] { stream(*backend, *sequence, greedy_, limit); }).kind();
  };
  EXPECT_EQ(kind(room + 2), ErrorKind::too_long);
  { const auto fits = stream(*backend, *sequence, greedy_, room + 1); }
  EXPECT_EQ(kind(1), ErrorKind::internal);  // the logits are used up
  const auto empty = backend->new_sequence(kCapacity);
  EXPECT_EQ(testing::raised([&] { stream(*backend, *empty, greedy_, 1); }).kind(), ErrorKind::internal);
}

TEST_P(TokenStreamTest, ALogitThatIsNotFiniteEndsTheStream) {
  const auto backend = open();
  const auto sequence = begin(*backend);
  const auto tokens = stream(*backend, *sequence, greedy_, 9);
  tokens->next();
  calls_.no_tokens = true;
  const Error error = testing::raised([&] { tokens->next(); });
  EXPECT_EQ(error.kind(), ErrorKind::internal);
  testing::expect_mentions(error, "not finite");
}

INSTANTIATE_TEST_SUITE_P(
    , TokenStreamTest,
    ::testing::Values(StreamCase{"emulator", [](LaneOrder order) { return emulator::open_device(2, order); }},
                      StreamCase{"cuda", [](LaneOrder /*order*/) { return cuda::open_device(); }}),
    [](const auto& device) { return device.param.name; });

// The engine over such a backend: whatever ended an answer, the next one is not touched by what ran ahead.
TEST(EngineOnADevice, AnswersDoNotDependOnHowEarlierOnesEnded) {
  EngineOptions options;
  options.model = testing::kMini;
  options.backend = "emulator";
  options.context = 64;
  const auto engine = Engine::open(options);
  GenerationRequest request;
  request.prompt = std::string("The");
  request.ignore_eos = true;
  request.max_tokens = 8;
  request.sampling.temperature = 0.8F;
  request.sampling.repetition_penalty = 1.2F;
  request.sampling.seed = 3;
  const GenerationResult whole = engine->generate(request, {}, {});
  EXPECT_EQ(whole.ids.size(), 8U);

  GenerationRequest shorter = request;
  shorter.max_tokens = 3;
  EXPECT_EQ(engine->generate(shorter, {}, {}).ids,
            std::vector<TokenId>(whole.ids.begin(), whole.ids.begin() + 3));
  std::stop_source stop;
  GenerationCallbacks callbacks;
  callbacks.delta = [&](const Delta&) { stop.request_stop(); };
  const GenerationResult cancelled = engine->generate(request, callbacks, stop.get_token());
  EXPECT_EQ(cancelled.answer.finish_reason, FinishReason::cancelled);
  EXPECT_LT(cancelled.ids.size(), 8U);
  EXPECT_EQ(engine->generate(request, {}, {}).ids, whole.ids);
}

}  // namespace
}  // namespace lily::gpu
