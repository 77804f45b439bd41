// The sampling cases of tests/data/cases.jsonl: what went wrong for users of other engines.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "backend/reference/router.hpp"
#include "engine/sampler.hpp"
#include "lily/error.hpp"
#include "lily/json.hpp"
#include "support/fixtures.hpp"
#include "support/scripted_engine.hpp"

namespace lily {
namespace {

struct SamplingCase {
  std::string id;
  Json input;
  Json expect;
};

void PrintTo(const SamplingCase& c, std::ostream* out) { *out << c.id; }

std::vector<SamplingCase> sampling_cases() {
  std::vector<SamplingCase> cases;
  std::ifstream file(testing::kData / "cases.jsonl");
  for (std::string line; std::getline(file, line);) {
    const Json json = Json::parse(line);
    if (json.find("kind")->as_string() != "sampling") continue;
    cases.push_back({json.find("id")->as_string(), *json.find("input"), *json.find("expect")});
  }
  return cases;
}

// Cases whose subject is not in this build or belongs to another group of tests.
const std::map<std::string, std::string>& skipped_cases() {
  static const std::map<std::string, std::string> cases = {
      {"THK-07", "thinking budgets are not built yet"},
      {"THK-07.b", "thinking budgets are not built yet"},
      {"NUM-02", "covered by reference_tests DeltaRule.StaysNearTheDoubleRecurrenceOverALongSlowDecay"},
      {"NUM-05", "covered by reference_tests ChunkingTest.AResetSequenceIsAsNew and by the kernel tests"},
      {"MOE-03", "covered by reference_tests ExpertsTest and by the kernel tests"},
  };
  return cases;
}

float number(const Json& value) {
  return value.is_string() ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(value.as_double());
}

std::vector<float> floats(const Json& array) {
  std::vector<float> values;
  for (const Json& value : array.as_array()) values.push_back(number(value));
  return values;
}

std::vector<TokenId> tokens(const Json* array) {
  std::vector<TokenId> values;
  if (array == nullptr) return values;
  for (const Json& value : array->as_array()) values.push_back(static_cast<TokenId>(value.as_double()));
  return values;
}

engine::SamplingSettings settings_of(const Json& input, std::size_t vocabulary) {
  const auto real = [&](const char* name) -> std::optional<float> {
    const Json* value = input.find(name);
    return value ? std::optional(number(*value)) : std::nullopt;
  };
  SamplingOptions options;
  options.temperature = real("temperature");
  options.top_p = real("top_p");
  options.min_p = real("min_p");
  options.presence_penalty = real("presence_penalty");
  options.frequency_penalty = real("frequency_penalty");
  if (const Json* top_k = input.find("top_k")) options.top_k = static_cast<int>(top_k->as_double());
  if (const Json* seed = input.find("seed")) options.seed = static_cast<std::uint64_t>(seed->as_double());
  if (const Json* bias = input.find("logit_bias")) {
    for (const auto& [id, value] : bias->as_object()) options.logit_bias[std::stoi(id)] = number(value);
  }
  return engine::resolve_sampling(options, {}, vocabulary);
}

std::vector<TokenId> draw(const Json& input, const engine::SamplingSettings& settings) {
  const std::vector<float> logits = floats(*input.find("logits"));
  const std::vector<TokenId> mask = tokens(input.find("mask_allowed"));
  const engine::TokenRanges allowed(static_cast<TokenId>(logits.size()), [&](TokenId id) {
    return mask.empty() || std::find(mask.begin(), mask.end(), id) != mask.end();
  });
  engine::Sampler sampler(settings, allowed, tokens(input.find("prompt_tokens")),
                          [](TokenId) { return false; });
  for (const TokenId id : tokens(input.find("generated"))) sampler.accept(id);
  const Json* draws = input.find("draws");
  std::vector<TokenId> chosen;
  for (int i = draws ? static_cast<int>(draws->as_double()) : 1; i > 0; --i) {
    std::vector<float> row = logits;
    chosen.push_back(sampler.choose(row));
  }
  return chosen;
}

class SamplingCases : public ::testing::TestWithParam<SamplingCase> {
 protected:
  const Json& input() const { return GetParam().input; }
  const Json* expected(const char* name) const { return GetParam().expect.find(name); }

  void run_draws() {
    const auto settings = settings_of(input(), input().find("logits")->as_array().size());
    const std::vector<TokenId> chosen = draw(input(), settings);
    int checks = 0;
    if (const Json* token = expected("token")) {
      EXPECT_EQ(chosen.front(), token->as_integer());
      ++checks;
    }
    if (const Json* subset = expected("tokens_subset")) {
      const std::vector<TokenId> allowed = tokens(subset);
      const std::set<TokenId> seen(chosen.begin(), chosen.end());
      for (const TokenId id : seen)
        EXPECT_NE(std::find(allowed.begin(), allowed.end(), id), allowed.end()) << id;
      if (expected("all_present")) {
        EXPECT_EQ(seen.size(), allowed.size());
      }
      ++checks;
    }
    if (const Json* range = expected("freq_each_between")) {
      for (TokenId id = 0; id < static_cast<TokenId>(input().find("logits")->as_array().size()); ++id) {
        const auto share = static_cast<double>(std::count(chosen.begin(), chosen.end(), id)) /
                           static_cast<double>(chosen.size());
        EXPECT_GE(share, range->as_array()[0].as_double());
        EXPECT_LE(share, range->as_array()[1].as_double());
      }
      ++checks;
    }
    EXPECT_GT(checks, 0) << "the case expects nothing this test knows";
  }

  void run_seeds() {
    std::vector<std::vector<TokenId>> sequences;
    for (const Json& seed : input().find("seeds")->as_array()) {
      auto settings = settings_of(input(), 64);
      settings.seed = static_cast<std::uint64_t>(seed.as_double());
      sequences.push_back(draw(input(), settings));
    }
    EXPECT_EQ(sequences[0], sequences[1]);
    EXPECT_NE(sequences[0], sequences[2]);
  }

  void run_router() {
    const std::vector<float> logits = floats(*input().find("logits"));
    const int count = static_cast<int>(input().find("k")->as_double());
    if (expected("or_error")) {
      EXPECT_THROW(reference::choose_experts(logits, count), Error);
      return;
    }
    const auto choices = reference::choose_experts(logits, count);
    std::vector<TokenId> ids;
    for (const auto& choice : choices) ids.push_back(choice.expert);
    EXPECT_EQ(ids, tokens(expected("ids")));
    if (const Json* weights = expected("weights")) {
      const std::vector<float> wanted = floats(*weights);
      for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(choices[i].weight, wanted[i], 1e-6);
    }
  }

  void run_script() {
    std::vector<TokenId> script;
    for (const Json& piece : input().find("scripted_tokens")->as_array()) {
      for (const TokenId id : testing::ids_of(piece.as_string())) script.push_back(id);
    }
    const auto engine = testing::make_scripted_engine({.tokens = script});
    GenerationRequest request = testing::ask("hello", false);
    request.max_tokens = 20;
    const GenerationResult result = engine->generate(request, {}, {});
    EXPECT_EQ(result.answer.content, expected("content")->as_string());
    EXPECT_EQ(to_string(result.answer.finish_reason), expected("finish_reason")->as_string());
  }
};

TEST_P(SamplingCases, Holds) {
  if (const auto skip = skipped_cases().find(GetParam().id); skip != skipped_cases().end()) {
    GTEST_SKIP() << skip->first << ": " << skip->second;
  }
  if (input().find("kernel")) {
    run_router();
  } else if (input().find("scripted_tokens")) {
    run_script();
  } else if (input().find("seeds")) {
    run_seeds();
  } else {
    run_draws();
  }
}

INSTANTIATE_TEST_SUITE_P(File, SamplingCases, ::testing::ValuesIn(sampling_cases()),
                         [](const auto& parameters) {
                           std::string name = parameters.param.id;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace lily
