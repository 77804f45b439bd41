// Opening real checkpoints, and whole answers of the trained mini model on the reference backend.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "lily/engine.hpp"
#include "lily/error.hpp"
#include "support/fixtures.hpp"
#include "support/raises.hpp"
#include "support/scripted_engine.hpp"

namespace lily {
namespace {

EngineOptions options_for(const std::filesystem::path& model, const std::string& backend = "reference") {
  EngineOptions options;
  options.model = model;
  options.backend = backend;
  options.context = 2048;
  return options;
}

TEST(Open, SaysWhatItSettledOn) {
  const auto engine = Engine::open(options_for(testing::kMini / ""));
  const EngineInfo& info = engine->info();
  EXPECT_EQ(info.model_id, "lily-mini");
  EXPECT_EQ(info.backend.rfind("reference (", 0), 0U) << info.backend;
  EXPECT_EQ(info.context, 2048);
  EXPECT_EQ(static_cast<std::size_t>(info.vocabulary_size), engine->text().vocabulary_size());
  EXPECT_GT(info.weight_bytes, 1U << 20);
  EXPECT_GT(info.sequence_bytes, 2048U);
  EXPECT_EQ(info.kv, "f32");
}

TEST(Open, AutoPicksTheReferenceForUnquantizedWeights) {
  const auto engine = Engine::open(options_for(testing::kTinyBf16, "auto"));
  EXPECT_EQ(engine->info().backend.rfind("reference", 0), 0U) << engine->info().backend;
}

TEST(Open, AutoPicksTheCpuForQuantizedWeights) {
  const auto engine = Engine::open(options_for(testing::kTinyQ4, "auto"));
  EXPECT_EQ(engine->info().backend.rfind("cpu", 0), 0U) << engine->info().backend;
  EXPECT_EQ(engine->info().kv, "f16");
}

TEST(Open, KnownButMissingBackendsAreRefusedByName) {
  const Error metal = testing::raised([&] { Engine::open(options_for(testing::kTinyQ4, "metal")); });
  EXPECT_EQ(metal.kind(), ErrorKind::unsupported);
  testing::expect_mentions(metal, "metal");
  const Error error = testing::raised([&] { Engine::open(options_for(testing::kTinyQ4, "tpu")); });
  EXPECT_EQ(error.kind(), ErrorKind::bad_input);
  testing::expect_mentions(error, "tpu");
}

TEST(Open, WithoutAGpuTheCudaBackendSaysWhatIsMissing) {
  try {
    EXPECT_EQ(Engine::open(options_for(testing::kTinyQ4, "cuda"))->info().backend.rfind("cuda", 0), 0U);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_THAT(error.what(), ::testing::ContainsRegex("backend cuda: .*(nvcc|driver|GPU)"));
  }
}

TEST(Open, OptionsTheReferenceWouldIgnoreAreRefused) {
  EngineOptions options = options_for(testing::kTinyQ4);
  options.kv = KvFormat::int8;
  EXPECT_EQ(testing::raised([&] { Engine::open(options); }).kind(), ErrorKind::unsupported);
  options.kv = KvFormat::f16;
  options.activations = Activations::fast;
  EXPECT_EQ(testing::raised([&] { Engine::open(options); }).kind(), ErrorKind::unsupported);
}

TEST(Open, TheEmulatorRunsAModelAndRefusesWhatItsKernelsLack) {
  EngineOptions options = options_for(testing::kTinyQ4, "emulator");
  options.threads = 1;
  options.context = 64;
  const EngineInfo info = Engine::open(options)->info();
  EXPECT_EQ(info.backend, "emulator (1 thread)");
  EXPECT_EQ(info.activations, "exact (16 bits per value)");
  options.activations = Activations::fast;
  EXPECT_EQ(testing::raised([&] { Engine::open(options); }).kind(), ErrorKind::unsupported);
  const Error error = testing::raised([] { Engine::open(options_for(testing::kTinyBf16, "emulator")); });
  EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  testing::expect_mentions(error, "is not quantized");
}

TEST(Open, OptionsOutOfRangeAreRefused) {
  const auto refuse = [](const std::function<void(EngineOptions&)>& spoil) {
    EngineOptions options = options_for(testing::kTinyQ4);
    spoil(options);
    const Error error = testing::raised([&] { Engine::open(options); });
    EXPECT_EQ(error.kind(), ErrorKind::bad_input) << error.what();
    return error;
  };
  testing::expect_mentions(refuse([](EngineOptions& o) { o.context = -1; }), "context");
  testing::expect_mentions(refuse([](EngineOptions& o) { o.threads = -1; }), "threads");
  testing::expect_mentions(refuse([](EngineOptions& o) { o.threads = 100000; }), "threads");
  testing::expect_mentions(refuse([](EngineOptions& o) { o.max_queue = -1; }), "max_queue");
}

TEST(Open, AMissingFolderIsNamed) {
  const Error error = testing::raised([&] { Engine::open(options_for("/nowhere/model")); });
  testing::expect_mentions(error, "/nowhere/model");
}

// Reading the weights of a large model takes minutes; what is wrong beside them is found first.
TEST(Open, AMissingTokenizerIsFoundBeforeTheWeightsAreRead) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "lily-without-tokenizer";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  for (const auto& entry : std::filesystem::directory_iterator(testing::kTinyQ4)) {
    if (entry.path().filename() == "tokenizer.json") continue;
    std::filesystem::create_symlink(entry.path(), folder / entry.path().filename());
  }
  EngineOptions options = options_for(folder, "cpu");
  bool loading = false;
  options.progress = [&](std::string_view, std::uint64_t, std::uint64_t, std::string_view) {
    loading = true;
  };
  const Error error = testing::raised([&] { Engine::open(options); });
  std::filesystem::remove_all(folder);
  EXPECT_EQ(error.kind(), ErrorKind::not_found);
  testing::expect_mentions(error, "tokenizer.json");
  EXPECT_FALSE(loading);
}

TEST(MiniModel, AnswersAGreetingAndEndsItsTurn) {
  const auto engine = Engine::open(options_for(testing::kMini));
  GenerationRequest request = testing::ask("Hello!", false);
  request.max_tokens = 60;
  const GenerationResult result = engine->generate(request, {}, {});
  EXPECT_FALSE(result.answer.content.empty());
  EXPECT_EQ(result.answer.finish_reason, FinishReason::stop) << result.answer.content;
  EXPECT_EQ(result.usage.prompt_tokens, static_cast<int>(engine->check(request).size()));
  EXPECT_GT(result.timing.prefill.count(), 0);
  EXPECT_GT(result.timing.decode.count(), 0);
  RecordProperty("answer", result.answer.content);
}

TEST(MiniModel, TheSameSeedGivesTheSameTextWithAnyNumberOfThreads) {
  GenerationRequest request = testing::ask("Tell me something.", true);
  request.max_tokens = 24;
  request.sampling.temperature = 1.5F;
  request.sampling.seed = 11;
  std::vector<std::vector<TokenId>> answers;
  for (const int threads : {1, 2}) {
    EngineOptions options = options_for(testing::kMini);
    options.threads = threads;
    const auto engine = Engine::open(options);
    answers.push_back(engine->generate(request, {}, {}).ids);
    answers.push_back(engine->generate(request, {}, {}).ids);
  }
  EXPECT_FALSE(answers[0].empty());
  for (const auto& answer : answers) EXPECT_EQ(answer, answers[0]);
}

}  // namespace
}  // namespace lily
