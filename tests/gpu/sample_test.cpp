// Sampling on the device against the engine's sampler: the same token for the same logits, settings and seed.
#include <cmath>

#include "engine/sampler.hpp"
#include "gpu/affine_matrix.hpp"
#include "gpu/device_test.hpp"

namespace lily::gpu {
namespace {

using engine::SamplingSettings;

// SplitMix64's finalizer, of the seed and the increment: the key of a stream of random numbers.
ulong random_key(std::uint64_t seed) {
  std::uint64_t value = seed + 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

class SampleTest : public DeviceTest {
 protected:
  // One request's sampler on the device.
  class DeviceSampler {
    static constexpr uint kIdRing = 3;

   public:
    DeviceSampler(SampleTest& test, const SamplingSettings& settings, std::vector<uint> history, uint slices)
        : test_(test),
          rows_(static_cast<uint>(history.size())),
          slices_(slices),
          slice_(divide_up(rows_, slices)) {
      SampleSettings device{random_key(settings.seed),
                            settings.temperature,
                            settings.top_p,
                            settings.min_p,
                            settings.repetition_penalty,
                            settings.presence_penalty,
                            settings.frequency_penalty,
                            static_cast<uint>(settings.top_k),
                            settings.logit_bias.empty() ? 0U : 1U};
      const auto allowed = std::count_if(history.begin(), history.end(),
                                         [](uint h) { return (h & TokenHistory::banned) == 0; });
      if (settings.top_k >= allowed) device.top_k = 0;
      std::vector<float> bias(rows_);
      for (const auto& [id, value] : settings.logit_bias) bias[static_cast<std::size_t>(id)] = value;
      settings_ = test.upload(std::vector<SampleSettings>{device});
      bias_ = test.upload(bias);
      history_ = test.upload(history);
      best_logit_ = test.room<float>(slices);
      best_id_ = test.room<uint>(slices);
      histogram_ = test.room<uint>(SampleShape::buckets * SampleShape::words);
      slice_weight_ = test.room<ulong>(slices);
      list_ = test.room<uint>(std::size_t{slices} * slice_);
      count_ = test.room<uint>(slices);
      drawn_ = test.zeros<uint>(1);
      step_ = test.zeros<uint>(3);
      ids_ = test.room<uint>(kIdRing);
    }

    uint choose(float* logits) {
      test_.run(
          SampleAdjust{logits, history_, bias_, settings_, best_logit_, best_id_, histogram_, rows_, slice_},
          {slices_});
      test_.run(
          SampleHistogram{logits, settings_, best_logit_, best_id_,
                          reinterpret_cast<atomic_uint*>(histogram_), slice_weight_, rows_, slice_, slices_},
          {slices_});
      test_.run(SampleCollect{logits, settings_, best_logit_, best_id_, histogram_, list_, count_, rows_,
                              slice_, slices_},
                {slices_});
      return draw(logits, best_logit_, best_id_, slices_);
    }
    // From the best tokens of `slices` parts of the vocabulary.
    uint draw(const float* logits, const float* best_logit, const uint* best_id, uint slices) {
      test_.run(SampleDraw{logits, settings_, best_logit, best_id, histogram_, slice_weight_, list_, count_,
                           history_, drawn_, step_, ids_, rows_, slice_, slices, kIdRing},
                {1});
      ++drawn_tokens_;
      const auto step = test_.download(step_, 3);
      EXPECT_EQ(step[0], drawn_tokens_);
      EXPECT_EQ(step[1], drawn_tokens_);
      EXPECT_EQ(step[2], test_.download(ids_, kIdRing)[drawn_tokens_ % kIdRing]);
      return step[2];
    }
    uint* history() { return history_; }

   private:
    SampleTest& test_;
    uint rows_, slices_, slice_;
    SampleSettings* settings_;
    float *bias_, *best_logit_;
    uint *history_, *best_id_, *histogram_, *list_, *count_, *drawn_, *step_, *ids_;
    uint drawn_tokens_ = 0;
    ulong* slice_weight_;
  };

  // Rows from `allowed` on are banned, ids divisible by 50 are control tokens, `prompt` was read.
  static std::vector<uint> history_of(uint rows, uint allowed, const SamplingSettings& settings,
                                      std::span<const TokenId> prompt) {
    std::vector<uint> history(rows);
    for (uint id = 0; id < rows; ++id) {
      history[id] = (id >= allowed ? TokenHistory::banned : 0U) | (id % 50 == 0 ? TokenHistory::control : 0U);
    }
    for (const TokenId id : prompt) {
      uint& entry = history[static_cast<std::size_t>(id)];
      if (settings.repetition_penalty != 1 && (entry & TokenHistory::control) == 0)
        entry |= TokenHistory::repeated;
    }
    return history;
  }

  // Logits as a model's, a few far above the rest, with ties.
  std::vector<float> random_logits(std::size_t rows, float spread) {
    std::vector<float> logits(rows);
    for (float& logit : logits) logit = std::round(uniform(-spread, spread) * 64) / 64;
    for (int i = 0; i < 6; ++i) logits[random_bits() % rows] += 4;
    return logits;
  }

  // `steps` tokens of one request, on the host and on the device.
  void expect_same_tokens(const SamplingSettings& settings, uint rows, uint allowed, uint slices, int steps,
                          float spread) {
    const std::vector<TokenId> prompt{1, 2, 50, 7};
    engine::Sampler sampler(settings,
                            engine::TokenRanges(static_cast<TokenId>(rows),
                                                [&](TokenId id) { return static_cast<uint>(id) < allowed; }),
                            prompt, [](TokenId id) { return id % 50 == 0; });
    DeviceSampler device(*this, settings, history_of(rows, allowed, settings, prompt), slices);
    for (int step = 0; step < steps; ++step) {
      std::vector<float> logits = random_logits(rows, spread);
      const uint found = device.choose(upload(logits));
      const TokenId expected = sampler.choose(logits);
      sampler.accept(expected);
      ASSERT_EQ(found, static_cast<uint>(expected)) << "step " << step << ", seed " << settings.seed;
    }
  }

  static SamplingSettings settings(float temperature, int top_k, float top_p, float min_p,
                                   std::uint64_t seed) {
    SamplingSettings s;
    s.temperature = temperature;
    s.top_k = top_k;
    s.top_p = top_p;
    s.min_p = min_p;
    s.seed = seed;
    return s;
  }
};

TEST_P(SampleTest, TheSameTokensAsTheEngine) {
  constexpr uint kRows = 700, kAllowed = 650;
  std::uint64_t seed = 1;
  for (const auto& [temperature, top_k, top_p, min_p] :
       {std::tuple(0.0F, 0, 1.0F, 0.0F), std::tuple(1.0F, 1, 0.9F, 0.0F), std::tuple(1.0F, 20, 0.95F, 0.0F),
        std::tuple(0.6F, 20, 0.95F, 0.0F), std::tuple(0.7F, 5, 1.0F, 0.0F),
        std::tuple(1.0F, 649, 0.999F, 0.0F), std::tuple(1.0F, 700, 0.5F, 0.0F),
        std::tuple(1.0F, 0, 0.9F, 0.0F), std::tuple(2.0F, 0, 0.999F, 0.0F), std::tuple(1.5F, 0, 0.01F, 0.0F),
        std::tuple(1.0F, 0, 1.0F, 0.0F), std::tuple(2.0F, 0, 1.0F, 0.1F), std::tuple(1.3F, 40, 0.9F, 0.2F),
        std::tuple(1.0F, 0, 0.95F, 0.05F), std::tuple(0.01F, 20, 0.95F, 0.0F),
        std::tuple(1.0F, 3, 1.0F, 1.0F)}) {
    for (const float spread : {3.0F, 0.1F}) {  // peaked and flat
      expect_same_tokens(settings(temperature, top_k, top_p, min_p, ++seed), kRows, kAllowed, 3, 6, spread);
    }
  }
}

TEST_P(SampleTest, PenaltiesAndBiasFollowTheAnswer) {
  SamplingSettings s = settings(1, 20, 0.95F, 0, 99);
  s.repetition_penalty = 1.3F;
  s.presence_penalty = 1.5F;
  s.frequency_penalty = 0.4F;
  s.logit_bias = {{3, 6.0F}, {4, -100.0F}, {50, 5.5F}, {7, 5.0F}, {100, -2.5F}};
  expect_same_tokens(s, 130, 120, 4, 40, 1);
  s.temperature = 0;
  expect_same_tokens(s, 130, 120, 4, 40, 1);
}

// More rows than threads have at once, and a last slice that is shorter, or empty.
TEST_P(SampleTest, VocabulariesThatAreNoMultiple) {
  for (const auto& [rows, slices] : {std::pair(2501U, 2U), std::pair(97U, 96U), std::pair(100U, 64U)}) {
    expect_same_tokens(settings(1, 20, 0.95F, 0, rows), rows, rows, slices, 2, 3);
    expect_same_tokens(settings(1, 0, 1, 0, rows), rows, rows, slices, 2, 3);
    expect_same_tokens(settings(1, 0, 0.9F, 0, rows), rows, rows, slices, 2, 3);
  }
}

// As many tokens as fit the sums, all alike: the whole weight is the largest there is.
TEST_P(SampleTest, SumsHoldTheLargestVocabulary) {
  constexpr uint kRows = SampleShape::max_rows;
  const SamplingSettings s = settings(1, 0, 0.75F, 0, 12);
  DeviceSampler device(*this, s, std::vector<uint>(kRows), 4);
  uint highest = 0;
  for (int draw = 0; draw < 8; ++draw) {
    const uint id = device.choose(upload(std::vector<float>(kRows, 1.0F)));
    ASSERT_LE(id, kRows / 4 * 3 + 3);
    highest = std::max(highest, id);
  }
  EXPECT_GT(highest, kRows / 4);
}

// Frequencies over many seeds follow the softmax.
TEST_P(SampleTest, DrawsAreDistributedByWeight) {
  constexpr uint kRows = 4, kDraws = 400;
  const SamplingSettings s = settings(1, 0, 1, 0, 5);
  DeviceSampler device(*this, s, std::vector<uint>(kRows), 2);
  std::vector<int> count(kRows);
  for (uint i = 0; i < kDraws; ++i) {
    ++count.at(device.choose(
        upload(std::vector<float>{std::log(0.1F), std::log(0.2F), std::log(0.3F), std::log(0.4F)})));
  }
  for (uint id = 0; id < kRows; ++id) {
    const double expected = 0.1 * (id + 1);
    EXPECT_NEAR(count[id] / static_cast<double>(kDraws), expected, 4 * std::sqrt(expected / kDraws)) << id;
  }
}

TEST_P(SampleTest, ALogitThatIsNotFiniteGivesNoToken) {
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    for (const float temperature : {0.0F, 1.0F}) {
      const SamplingSettings s = settings(temperature, 20, 0.95F, 0, 5);
      std::vector<uint> history(300);
      history[200] = TokenHistory::banned;
      DeviceSampler device(*this, s, history, 3);
      std::vector<float> logits = uniforms(300, -1, 1);
      logits[200] = bad;  // a row without a token may hold anything
      EXPECT_LT(device.choose(upload(logits)), 300U);
      logits[150] = bad;
      const auto before = download(device.history(), 300);
      EXPECT_EQ(device.choose(upload(logits)), uint{SampleShape::none});
      EXPECT_EQ(download(device.history(), 300), before);
    }
  }
}

TEST_P(SampleTest, HeadBestFindsTheBestOfItsLogits) {
  constexpr uint kRows = 300, kInputs = 128, kGroups = 5;
  const AffineMatrix matrix(kRows, {kInputs, 4, 64}, random_bits());
  for (const uint bans : {0U, 299U}) {
    std::vector<uint> history(kRows);
    for (uint i = 0; i < bans; ++i) history[i == 123 ? 299 : i] = TokenHistory::banned;  // all but 123
    const float* x = upload(uniforms(kInputs, -2, 2));
    const float* factor = upload(uniforms(kInputs, 0.5F, 1.5F));
    const auto* weights = reinterpret_cast<in<uchar>>(upload(matrix.packed()));
    float *y = room<float>(kRows), *plain = room<float>(kRows), *best_logit = room<float>(kGroups);
    uint* best_id = room<uint>(kGroups);
    run(HeadBest{weights, x, factor, upload(history), y, best_logit, best_id, kInputs, 1, kRows, kGroups,
                 1e-6F},
        {kGroups});
    run(HeadProject{weights, x, factor, plain, kInputs, 1, kRows, kGroups, 1e-6F}, {kGroups, 1});
    const auto logits = download(y, kRows);
    EXPECT_EQ(logits, download(plain, kRows));
    const uint expected =
        bans > 0 ? 123U : static_cast<uint>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    DeviceSampler device(*this, settings(0, 0, 1, 0, 1), history, 1);
    EXPECT_EQ(device.draw(y, best_logit, best_id, kGroups), expected);
    EXPECT_EQ(download(device.history(), kRows)[expected] & TokenHistory::count_mask, 1U);
  }
}

LILY_FOR_ALL_DEVICES(SampleTest);

}  // namespace
}  // namespace lily::gpu
