// The benchmark keeps its contract, and the evaluation finds what it should.
#include "lily/measure.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <vector>

#include "engine/fidelity.hpp"
#include "engine/synthetic_prompt.hpp"
#include "lily/error.hpp"
#include "lily/json.hpp"
#include "support/fixtures.hpp"
#include "support/raises.hpp"

namespace lily {
namespace {

Json read_json(const char* name) {
  std::ifstream file(testing::kData / name);
  std::stringstream text;
  text << file.rdbuf();
  return Json::parse(text.str());
}

std::vector<TokenId> ids_of(const Json& array) {
  std::vector<TokenId> ids;
  for (const Json& id : array.as_array()) ids.push_back(static_cast<TokenId>(id.as_double()));
  return ids;
}

TEST(SyntheticPrompt, EqualsTheContract) {
  const Json contract = read_json("benchmark-synthetic-prompt.json");
  const int vocabulary = static_cast<int>(contract.find("vocab_size")->as_double());
  EXPECT_EQ(engine::synthetic_ids(0, 64, vocabulary), ids_of(*contract.find("first_64_ids")));
  const std::vector<TokenId> all = engine::synthetic_ids(0, 131072, vocabulary);
  for (const auto& [index, id] : contract.find("ids_at")->as_object()) {
    EXPECT_EQ(all[std::stoul(index)], id.as_integer()) << index;
  }
  for (const auto& [count, wanted] : contract.find("fnv1a_of_prompt")->as_object()) {
    EXPECT_EQ(engine::digest(std::span(all).first(std::stoul(count))), wanted.as_string()) << count;
  }
  EXPECT_EQ(engine::synthetic_ids(100, 28, vocabulary),
            std::vector<TokenId>(all.begin() + 100, all.begin() + 128));
}

TEST(Digest, EqualsTheVectors) {
  const Json contract = read_json("benchmark-synthetic-prompt.json");
  const Json answers = read_json("qwen36-35b-golden-greedy.json");
  const std::string prefix = "greedy_ids of case ";
  int checked = 0;
  for (const Json& vector : contract.find("digest_vectors")->as_array()) {
    const Json& tokens = *vector.find("tokens");
    std::vector<TokenId> ids;
    if (tokens.is_array()) {
      ids = ids_of(tokens);
    } else if (tokens.as_string() == "first_64_ids") {
      ids = ids_of(*contract.find("first_64_ids"));
    } else {
      ASSERT_EQ(tokens.as_string().rfind(prefix, 0), 0U);
      const std::string name = tokens.as_string().substr(prefix.size());
      const Json* found = answers.find("cases");
      ASSERT_NE(found, nullptr);
      for (const Json& answer : found->as_array()) {
        if (answer.find("name")->as_string() == name) ids = ids_of(*answer.find("greedy_ids"));
      }
      ASSERT_FALSE(ids.empty()) << name;
    }
    EXPECT_EQ(engine::digest(ids), vector.find("hex")->as_string());
    ++checked;
  }
  EXPECT_EQ(checked, 8);
}

EngineOptions reference_options(const std::filesystem::path& model) {
  EngineOptions options;
  options.model = model;
  options.backend = "reference";
  options.threads = 1;  // CTest runs tests side by side
  return options;
}

TEST(Benchmark, RowsAreConsistentAndTheDigestRepeats) {
  EngineOptions options = reference_options(testing::kTinyQ4);
  std::vector<std::string> works;
  options.progress = [&](std::string_view work, std::uint64_t done, std::uint64_t total,
                         std::string_view unit) {
    EXPECT_LE(done, total);
    EXPECT_EQ(unit, "tokens");
    works.emplace_back(work);
  };
  std::vector<BenchmarkRow> rows;
  benchmark(options, {.prompts = {4, 6}, .depths = {0, 2}, .decode = 3},
            [&](const BenchmarkRow& row) { rows.push_back(row); });
  ASSERT_EQ(rows.size(), 4U);
  for (const BenchmarkRow& row : rows) {
    EXPECT_GT(row.prefill_tok_s, 0);
    EXPECT_GT(row.decode_tok_s, 0);
    EXPECT_NEAR(row.gb_per_s, row.bytes_per_token * row.decode_tok_s / 1e9, 1e-9);
    EXPECT_NEAR(row.limit_share, row.gb_per_s / row.stream_gb_per_s, 1e-9);
    EXPECT_GT(row.peak_rss_bytes, 1U << 20);
    EXPECT_EQ(row.digest.size(), 16U);
    EXPECT_EQ(row.kv, "f32");
    EXPECT_EQ(row.int8_tera_ops, 0);  // the reference has no integer arithmetic
  }
  EXPECT_EQ(rows[0].prompt_tokens, 4);
  EXPECT_EQ(rows[2].depth, 2);
  // The same 6 ids come before the decoded ones in both rows.
  EXPECT_EQ(rows[1].digest, rows[2].digest);
  EXPECT_NE(rows[0].digest, rows[1].digest);
  EXPECT_GT(rows[3].bytes_per_token, rows[0].bytes_per_token);
  EXPECT_FALSE(works.empty());
}

TEST(Benchmark, RefusesWhatItCannotMeasure) {
  const auto refuse = [](const BenchmarkOptions& options) {
    return testing::raised(
        [&] { benchmark(reference_options(testing::kTinyQ4), options, [](const auto&) {}); });
  };
  testing::expect_mentions(refuse({.prompts = {0}}), "prompts");
  testing::expect_mentions(refuse({.prompts = {}}), "prompts");
  testing::expect_mentions(refuse({.depths = {-1}}), "depths");
  testing::expect_mentions(refuse({.decode = 0}), "decode");
  EXPECT_EQ(refuse({.prompts = {2000000000}, .depths = {2000000000}}).kind(), ErrorKind::too_long);
  const Error error = refuse({.prompts = {300000}});
  EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  testing::expect_mentions(error, "262144");
}

TEST(Evaluation, OfTheReferenceIsNearlyPerfect) {
  std::vector<EvaluationRow> rows;
  evaluate(reference_options(testing::kMini), testing::kGoldenMini,
           [&](const EvaluationRow& row) { rows.push_back(row); });
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].entry, "short");
  EXPECT_EQ(rows[1].entry, "mid");
  EXPECT_EQ(rows[2].entry, "greedy");
  for (const EvaluationRow& row : rows) {
    EXPECT_LT(row.max_abs_error, 2e-4) << row.entry;
    EXPECT_EQ(row.top1, 1.0) << row.entry;
    EXPECT_NEAR(row.kl, 0, 1e-6) << row.entry;
    EXPECT_NEAR(row.perplexity_ratio, 1, 1e-4) << row.entry;
  }
  EXPECT_EQ(rows[0].positions, 57);
  EXPECT_EQ(rows[2].greedy_equal, 48);
}

TEST(Evaluation, RefusesAGoldenFileOfAnotherModel) {
  const Error error = testing::raised(
      [&] { evaluate(reference_options(testing::kTinyQ4), testing::kGoldenMini, [](const auto&) {}); });
  EXPECT_EQ(error.kind(), ErrorKind::bad_input);
  testing::expect_mentions(error, "short.ids");
}

// A golden file is untrusted: its ids are looked up in rows of logits.
TEST(Evaluation, RefusesIdsOutsideTheVocabulary) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "lily-golden-bad-id.safetensors";
  std::string header = R"({"greedy.ids":{"dtype":"I32","shape":[2],"data_offsets":[0,8]},)"
                       R"("greedy.logits":{"dtype":"F32","shape":[1,512],"data_offsets":[8,2056]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = header.size();
  const std::int32_t ids[2] = {1, 70000};
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof(length));
  file << header;
  file.write(reinterpret_cast<const char*>(ids), sizeof(ids));
  file << std::string(2048, '\0');
  file.close();
  const Error error =
      testing::raised([&] { evaluate(reference_options(testing::kTinyQ4), path, [](const auto&) {}); });
  std::filesystem::remove(path);
  EXPECT_EQ(error.kind(), ErrorKind::bad_input);
  testing::expect_mentions(error, "70000");
}

// The largest error of logits beside a NaN is no NaN.
TEST(Evaluation, RefusesLogitsThatAreNotFinite) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "lily-golden-nan.safetensors";
  std::filesystem::copy_file(testing::kGoldenQ4, path, std::filesystem::copy_options::overwrite_existing);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  std::uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), sizeof(length));
  std::string text(length, '\0');
  file.read(text.data(), static_cast<std::streamsize>(length));
  const Json header = Json::parse(text);
  const auto begin = header.find("short.logits")->find("data_offsets")->as_array()[0].as_integer().value();
  const float nan = std::nanf("");
  file.seekp(static_cast<std::streamoff>(8 + length) + begin + 4 * 600);
  file.write(reinterpret_cast<const char*>(&nan), sizeof(nan));
  file.close();
  const Error error =
      testing::raised([&] { evaluate(reference_options(testing::kTinyQ4), path, [](const auto&) {}); });
  std::filesystem::remove(path);
  EXPECT_EQ(error.kind(), ErrorKind::bad_input);
  testing::expect_mentions(error, path.string() + ": tensor short.logits: value nan at index 600");
}

TEST(Evaluation, AGoldenFileThatShrinksIsNamed) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "lily-golden-shrinking.safetensors";
  std::filesystem::copy_file(testing::kGoldenQ4, path, std::filesystem::copy_options::overwrite_existing);
  const Error error = testing::raised([&] {
    evaluate(reference_options(testing::kTinyQ4), path,
             [&](const EvaluationRow&) { std::filesystem::resize_file(path, 8192); });
  });
  std::filesystem::remove(path);
  EXPECT_EQ(error.kind(), ErrorKind::device);
  testing::expect_mentions(error, path.string() + ": ends at offset ");
}

TEST(Evaluation, AMissingGoldenFileIsNamed) {
  const Error error = testing::raised([&] {
    evaluate(reference_options(testing::kTinyQ4), "/nowhere/golden.safetensors", [](const auto&) {});
  });
  EXPECT_EQ(error.kind(), ErrorKind::not_found);
  testing::expect_mentions(error, "/nowhere/golden.safetensors");
}

// Two tokens with known probabilities: stored 0.5 / 0.5, ours 0.75 / 0.25.
TEST(Fidelity, OfAKnownDifference) {
  const std::vector<float> stored = {0, 0};
  const std::vector<float> ours = {std::log(3.0F), 0};
  engine::Fidelity fidelity;
  fidelity.add_position(ours, 1);
  fidelity.add_logits(ours, stored);
  fidelity.add_likelihood(engine::negative_log_likelihood(ours, 1),
                          engine::negative_log_likelihood(stored, 1));
  const EvaluationRow row = fidelity.row("x");
  EXPECT_NEAR(row.max_abs_error, std::log(3.0), 1e-6);
  EXPECT_NEAR(row.kl, 0.5 * std::log(0.5 / 0.75) + 0.5 * std::log(0.5 / 0.25), 1e-6);
  EXPECT_NEAR(row.perplexity_ratio, 2.0, 1e-6);
  EXPECT_EQ(row.top1, 0.0);
  EXPECT_EQ(row.positions, 1);
  EXPECT_TRUE(std::isnan(engine::Fidelity().row("empty").kl));
}

TEST(Fidelity, NonFiniteLogitsAreAnErrorNotANumber) {
  const std::vector<float> ours = {0, std::nanf("")};
  EXPECT_EQ(testing::raised([&] { engine::Fidelity().add_position(ours, 0); }).kind(), ErrorKind::internal);
}

}  // namespace
}  // namespace lily
