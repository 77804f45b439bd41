// Perplexity of a text is what its definition says, and two readers of it are compared rightly.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/fidelity.hpp"
#include "engine/open_model.hpp"
#include "lily/error.hpp"
#include "lily/measure.hpp"
#include "lily/suite.hpp"
#include "support/fixtures.hpp"
#include "support/raises.hpp"

namespace lily {
namespace {

EngineOptions options_of(const char* backend, const std::filesystem::path& model = testing::kMini) {
  EngineOptions options;
  options.model = model;
  options.backend = backend;
  options.threads = 1;  // CTest runs tests side by side
  return options;
}

class TextPerplexity : public ::testing::Test {
 protected:
  void write(const std::string& text) { std::ofstream(path_) << text; }
  ~TextPerplexity() override { std::filesystem::remove(path_); }

  std::filesystem::path path_ =
      std::filesystem::path(::testing::TempDir()) /
      (std::string("lily-text-") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

// Step by step through `ids`, a fresh sequence for each window.
double perplexity_of(const std::vector<TokenId>& ids, std::size_t window) {
  const EngineOptions options = options_of("reference");
  const engine::LoadedModel model = engine::load_model(options, engine::prove_model(options, 0));
  std::vector<float> logits(static_cast<std::size_t>(model.backend->dimensions().vocabulary));
  double loss = 0;
  int predicted = 0;
  for (std::size_t begin = 0; begin < ids.size(); begin += window) {
    const auto sequence = model.backend->new_sequence(static_cast<int>(window));
    for (std::size_t at = begin; at + 1 < std::min(begin + window, ids.size()); ++at) {
      model.backend->decode(*sequence, ids[at], logits);
      loss += engine::negative_log_likelihood(logits, ids[at + 1]);
      ++predicted;
    }
  }
  return std::exp(loss / predicted);
}

TEST_F(TextPerplexity, IsThatOfTheDefinitionInEveryWindow) {
  const std::string text =
      "<|im_start|>user\nWho are you?<|im_end|>\n<|im_start|>assistant\nI am Lily.<|im_end|>\n";
  write(text);
  const std::vector<TokenId> ids = TextProtocol::open(testing::kMini)->encode(text, true);
  for (const int window : {0, 7}) {
    const TextRow row = evaluate_text(options_of("reference"), {.text = path_, .window = window});
    const auto size = window == 0 ? ids.size() : static_cast<std::size_t>(window);
    const std::size_t windows = (ids.size() + size - 1) / size;
    EXPECT_EQ(row.tokens, static_cast<int>(ids.size()));
    EXPECT_EQ(row.windows, static_cast<int>(windows));
    EXPECT_EQ(row.predicted, static_cast<int>(ids.size() - windows));
    EXPECT_DOUBLE_EQ(row.bytes_per_token, static_cast<double>(text.size()) / static_cast<double>(ids.size()));
    EXPECT_NEAR(row.perplexity / perplexity_of(ids, size), 1, 1e-5);
    EXPECT_TRUE(std::isnan(row.against_perplexity));
    EXPECT_TRUE(std::isnan(row.top1));
  }
}

// Conversations of the held-out suite, longer than the steps in which two readers take turns.
std::string held_out_text() {
  const auto protocol = TextProtocol::open(testing::kMini);
  std::string text;
  for (const SuiteTask& task : read_suite(testing::kMini / "suite.jsonl")) {
    if (task.kind == "chain") text += protocol->render(task.prompt).text() + "\n";
    if (text.size() > 9000) break;
  }
  return text;
}

TEST_F(TextPerplexity, OfTheCpuBackendAgreesWithTheReference) {
  write(held_out_text());
  const TextRow row = evaluate_text(
      options_of("cpu"),
      {.text = path_, .window = 1000, .against = testing::kMini, .against_backend = "reference"});
  EXPECT_GT(row.tokens, 2000);
  EXPECT_GE(row.top1, 0.99);
  EXPECT_LT(row.kl, 0.01);
  EXPECT_NEAR(row.perplexity_ratio, 1, 0.01);
  EXPECT_NEAR(row.perplexity / row.against_perplexity, row.perplexity_ratio, 1e-9);
}

// The reference computes exactly, whatever the other does.
TEST_F(TextPerplexity, TheSecondOneHasActivationsOfItsOwn) {
  write("Hello there, how are you?");
  EngineOptions fast = options_of("cpu");
  fast.activations = Activations::fast;
  TextOptions text{.text = path_, .against = testing::kMini, .against_backend = "reference"};
  const TextRow row = evaluate_text(fast, text);
  EXPECT_GT(row.kl, 0);
  text.against_backend = "cpu";
  text.against_activations = Activations::fast;
  EXPECT_EQ(evaluate_text(fast, text).kl, 0);
  text.against_activations = Activations::exact;
  EXPECT_GT(evaluate_text(fast, text).kl, 0);
}

TEST_F(TextPerplexity, RefusesWhatItCannotCompare) {
  write("Hello there");
  const Error error = testing::raised(
      [&] { evaluate_text(options_of("cpu"), {.text = path_, .against = testing::kTinyQ4}); });
  EXPECT_EQ(error.kind(), ErrorKind::bad_input);
  testing::expect_mentions(error, "tiny-q4");
}

TEST_F(TextPerplexity, RefusesATextWithoutATokenToPredict) {
  write("");
  testing::expect_mentions(testing::raised([&] { evaluate_text(options_of("cpu"), {.text = path_}); }),
                           "at least 2");
  EXPECT_EQ(testing::raised([&] { evaluate_text(options_of("cpu"), {.text = "/nowhere.txt"}); }).kind(),
            ErrorKind::not_found);
}

}  // namespace
}  // namespace lily
