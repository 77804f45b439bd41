// Synthetic checkpoints: reproducible, complete, sensible in their values, and gone when writing fails.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backend/reference/reference_backend.hpp"
#include "base/thread_pool.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/edited_checkpoint.hpp"
#include "checkpoint/synthetic_tokenizer.hpp"
#include "checkpoint/synthetic_values.hpp"
#include "checkpoint/writer.hpp"
#include "lily/error.hpp"
#include "lily/synth.hpp"
#include "lily/text.hpp"
#include "support/fixtures.hpp"
#include "support/text_checks.hpp"

namespace lily::testing {
namespace {

namespace fs = std::filesystem;

SynthOptions tiny(const fs::path& out, std::uint64_t seed = 1) {
  SynthOptions options;
  options.out = out;
  options.preset = "tiny";
  options.seed = seed;
  return options;
}

std::string synth_error(const SynthOptions& options, ErrorKind kind) {
  try {
    synthesize(options);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
}

std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    files[entry.path().filename().string()] = read_file(entry.path());
  }
  return files;
}

TEST(Synthetic, SameSeedSameBytes) {
  const TemporaryFolder folder;
  synthesize(tiny(folder.path() / "a"));
  synthesize(tiny(folder.path() / "b"));
  synthesize(tiny(folder.path() / "c", 2));
  const auto first = contents(folder.path() / "a");
  EXPECT_EQ(first.size(), 8U);
  EXPECT_EQ(first, contents(folder.path() / "b"));
  EXPECT_NE(first, contents(folder.path() / "c"));
}

TEST(Synthetic, OpensWithTheGoldenModelsShape) {
  const TemporaryFolder folder;
  synthesize(tiny(folder.path() / "a"));
  const auto made = checkpoint::Checkpoint::open(folder.path() / "a");
  const auto golden = checkpoint::Checkpoint::open(kTinyQ4);
  EXPECT_EQ(made->proof().tensors, golden->proof().tensors);
  EXPECT_EQ(made->proof().shards, 2);
  EXPECT_EQ(made->layout(), model::Layout::mlx);
  EXPECT_EQ(made->layers()[3].moe.gate_proj.stored_bytes(), golden->layers()[3].moe.gate_proj.stored_bytes());
  EXPECT_EQ(checkpoint::read_generation_defaults(folder.path() / "a").eos_token_ids,
            (std::vector<int>{481, 479}));
}

// Codes, scales and biases of different seeds and tensors must not repeat, or experts would be copies.
TEST(Synthetic, ExpertsDiffer) {
  const TemporaryFolder folder;
  synthesize(tiny(folder.path() / "a"));
  const auto checkpoint = checkpoint::Checkpoint::open(folder.path() / "a");
  const checkpoint::Matrix& gate = checkpoint->layers()[0].moe.gate_proj;
  const checkpoint::Matrix& up = checkpoint->layers()[0].moe.up_proj;
  const auto row = [&](const checkpoint::Matrix& matrix, int expert) {
    std::vector<float> values(static_cast<std::size_t>(matrix.columns));
    checkpoint::decode_row(*checkpoint, matrix, expert, 0, values);
    return values;
  };
  EXPECT_NE(row(gate, 0), row(gate, 1));
  EXPECT_NE(row(gate, 0), row(up, 0));
}

// Weights of standard deviation 1 / sqrt(inputs) around zero keep activations at rms 1.
TEST(Synthetic, WeightsAreCentredAndScaled) {
  const TemporaryFolder folder;
  synthesize(tiny(folder.path() / "a"));
  const auto checkpoint = checkpoint::Checkpoint::open(folder.path() / "a");
  for (const auto* const matrix :
       {&checkpoint->layers()[0].moe.up_proj, &checkpoint->layers()[0].moe.down_proj,
        &checkpoint->layers()[0].delta_net->in_proj_qkv}) {
    std::vector<float> values(static_cast<std::size_t>(matrix->columns));
    double sum = 0;
    double squares = 0;
    double count = 0;
    for (int expert = 0; expert < matrix->experts; ++expert) {
      for (std::int64_t i = 0; i < matrix->rows; ++i) {
        checkpoint::decode_row(*checkpoint, *matrix, expert, i, values);
        for (const float value : values) {
          sum += value;
          squares += static_cast<double>(value) * value;
        }
        count += static_cast<double>(values.size());
      }
    }
    const double unit = 1 / std::sqrt(static_cast<double>(matrix->columns));
    EXPECT_NEAR(sum / count, 0, unit / 50) << matrix->name;
    EXPECT_NEAR(std::sqrt(squares / count), unit, unit / 20) << matrix->name;
  }
  for (const checkpoint::Layer& layer : checkpoint->layers()) {
    if (!layer.delta_net) continue;
    for (const float value : layer.delta_net->a_log)
      EXPECT_TRUE(value >= 0 && value <= std::log(16.1F)) << value;
    for (const float value : layer.delta_net->dt_bias) EXPECT_TRUE(value > -7 && value < -2) << value;
  }
}

// The tiny model with as many layers as the real one: the residual must neither die nor grow out of hand, and
// every expert must get work, or speed measured on such a checkpoint would say nothing.
TEST(Synthetic, FortyLayersStayInRangeAndUseAllExperts) {
  const TemporaryFolder folder;
  model::Dimensions dims = checkpoint::synthetic_preset("tiny").dimensions;
  while (dims.layer_count() < 40) {
    dims.layers.push_back(dims.layer_count() % 4 == 3 ? model::LayerKind::attention
                                                      : model::LayerKind::delta_net);
  }
  const std::vector<checkpoint::SyntheticTensor> tensors = checkpoint::synthetic_tensors(dims);
  std::vector<checkpoint::OutputTensor> outputs;
  for (const checkpoint::SyntheticTensor& tensor : tensors) outputs.push_back(tensor.output);
  ThreadPool threads(2);
  const auto fill = [&](std::size_t tensor, std::uint64_t offset, std::span<std::byte> out) {
    checkpoint::fill_synthetic(tensors[tensor], 1, offset, out);
  };
  checkpoint::write_shards(folder.path(), outputs, std::uint64_t{1} << 40, fill, threads, {});
  write_file(folder.path() / "config.json", checkpoint::synthetic_config(dims, 479).dump());
  const auto checkpoint = checkpoint::Checkpoint::open(folder.path());

  std::set<std::size_t> used;  // by layer 20's router, on hidden states normalized as before it
  const auto observe = [&](int layer, int position, std::span<const float> hidden) {
    double squares = 0;
    for (const float value : hidden) squares += static_cast<double>(value) * value;
    const double rms = std::sqrt(squares / static_cast<double>(hidden.size()));
    EXPECT_TRUE(rms > 0.5 && rms < 8) << "rms " << rms << " after layer " << layer << " at " << position;
    if (layer != 20) return;
    std::vector<std::pair<double, std::size_t>> logits;
    std::vector<float> row(hidden.size());
    const checkpoint::Matrix& router = checkpoint->layers()[20].moe.router;
    for (std::int64_t expert = 0; expert < router.rows; ++expert) {
      checkpoint::decode_row(*checkpoint, router, 0, expert, row);
      double logit = 0;
      for (std::size_t i = 0; i < row.size(); ++i) logit += row[i] * static_cast<double>(hidden[i]) / rms;
      logits.emplace_back(logit, static_cast<std::size_t>(expert));
    }
    std::partial_sort(logits.begin(), logits.begin() + 8, logits.end(), std::greater<>());
    for (std::size_t i = 0; i < 8; ++i) used.insert(logits[i].second);
  };
  const auto backend = reference::open_reference_backend(checkpoint, 2, observe);
  const auto sequence = backend->new_sequence(32);
  std::vector<TokenId> ids(32);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(i * 37 % 479);
  std::vector<float> logits(512);
  backend->prefill(*sequence, ids, logits, {});
  EXPECT_GE(used.size(), 28U);  // of 32
  double squares = 0;
  for (const float logit : logits) squares += static_cast<double>(logit) * logit;
  EXPECT_NEAR(std::sqrt(squares / 512), 2.5, 0.8);
}

// The real preset is too large for a test; a piece in its middle shows that values do not depend on
// neighbours.
TEST(Synthetic, PiecesOfTheRealPresetAreIndependent) {
  const auto tensors = checkpoint::synthetic_tensors(checkpoint::synthetic_preset("35b").dimensions);
  const checkpoint::SyntheticTensor& head = tensors[3];
  ASSERT_EQ(head.output.name, "language_model.lm_head.weight");
  std::vector<std::byte> first(4096);
  std::vector<std::byte> again(4096);
  std::vector<std::byte> other(4096);
  checkpoint::fill_synthetic(head, 1, 7 * checkpoint::kPieceBytes, first);
  checkpoint::fill_synthetic(head, 1, 7 * checkpoint::kPieceBytes, again);
  checkpoint::fill_synthetic(head, 1, 8 * checkpoint::kPieceBytes, other);
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
}

TEST(Synthetic, ConfigOfTheRealPresetHasTheOfficialDimensions) {
  const TemporaryFolder folder;
  const model::Dimensions dims = checkpoint::synthetic_preset("35b").dimensions;
  write_file(folder.path() / "config.json", checkpoint::synthetic_config(dims, 248044).dump());
  const checkpoint::Config made = checkpoint::read_config(folder.path());
  const Json official = Json::parse(read_file(kData / "qwen3.6-35b-a3b-config.json"));
  const Json written = checkpoint::synthetic_config(dims, 248044);
  int compared = 0;
  for (const auto& [name, value] : written.find("text_config")->as_object()) {
    const Json* const expected = official.find("text_config")->find(name);
    ASSERT_NE(expected, nullptr) << name;
    EXPECT_EQ(value, *expected) << name;
    ++compared;
  }
  EXPECT_GT(compared, 30);
  ASSERT_TRUE(made.quantization);
  EXPECT_EQ(made.quantization->overrides.size(), 80U);
}

TEST(Synthetic, ProgressRunsToItsTotal) {
  const TemporaryFolder folder;
  SynthOptions options = tiny(folder.path() / "a");
  std::uint64_t last = 0;
  std::uint64_t total = 0;
  options.progress = [&](std::string_view, std::uint64_t done, std::uint64_t all, std::string_view unit) {
    EXPECT_GE(done, last);
    EXPECT_EQ(unit, "bytes");
    last = done;
    total = all;
  };
  synthesize(options);
  EXPECT_GT(total, 3000000U);
  EXPECT_EQ(last, total);
}

TEST(Synthetic, TokenizerEncodesAndKnowsItsControlTokens) {
  const TemporaryFolder folder;
  synthesize(tiny(folder.path() / "a"));
  const auto text = TextProtocol::open(folder.path() / "a");
  EXPECT_EQ(text->vocabulary_size(), 512U);
  const std::string sample = "Hello, world! \n\t \xc3\xa9\xe6\xbc\xa2 123";
  EXPECT_EQ(text->decode(text->encode(sample, false)), sample);
  EXPECT_EQ(text->encode("<|im_end|>", true), (std::vector<TokenId>{481}));
}

TEST(Synthetic, RealSizedTokenizerFillsEveryIdBelowTheControlTokens) {
  const std::string json = checkpoint::synthetic_tokenizer(248044);
  EXPECT_LT(json.size(), 12000000U);
  const checkpoint::TokenizerFacts facts = checkpoint::read_tokenizer_facts(json, "tokenizer.json");
  EXPECT_EQ(facts.end_of_text, 248044);
  EXPECT_EQ(facts.end_of_turn, 248046);
  EXPECT_EQ(facts.highest_id, 248076);
  const TemporaryFolder folder;
  write_file(folder.path() / "tokenizer.json", json);
  const auto text = TextProtocol::open_tokenizer(folder.path() / "tokenizer.json");
  EXPECT_EQ(text->vocabulary_size(), 248077U);
  // Words of four letters and more need a few tokens only.
  const std::vector<TokenId> ids = text->encode(" the quick brown fox", false);
  EXPECT_LT(ids.size(), 12U);
  EXPECT_EQ(text->decode(ids), " the quick brown fox");
  EXPECT_EQ(text->encode("!", false), (std::vector<TokenId>{0}));
  EXPECT_EQ(text->encode("\n", false), (std::vector<TokenId>{198}));
}

TEST(Synthetic, GivenTokenizerIsCopied) {
  const TemporaryFolder folder;
  SynthOptions options = tiny(folder.path() / "a");
  options.tokenizer = kTinyQ4 / "tokenizer.json";
  synthesize(options);
  EXPECT_EQ(read_file(folder.path() / "a/tokenizer.json"), read_file(kTinyQ4 / "tokenizer.json"));
  EXPECT_EQ(checkpoint::read_generation_defaults(folder.path() / "a").eos_token_ids,
            (std::vector<int>{505, 503}));
}

TEST(Synthetic, TokenizerLargerThanTheModelIsRefused) {
  const TemporaryFolder folder;
  SynthOptions options = tiny(folder.path() / "a");
  options.tokenizer = kMini / "tokenizer.json";
  EXPECT_TRUE(contains(synth_error(options, ErrorKind::bad_input), "512"));
  EXPECT_FALSE(fs::exists(folder.path() / "a"));
}

TEST(Synthetic, BadRequestsAreRefused) {
  const TemporaryFolder folder;
  SynthOptions options = tiny(folder.path() / "a");
  options.preset = "70b";
  EXPECT_TRUE(contains(synth_error(options, ErrorKind::bad_input), "70b"));
  EXPECT_TRUE(contains(synth_error(tiny(kTinyQ4), ErrorKind::bad_input), "not empty"));
  write_file(folder.path() / "file", "x");
  EXPECT_TRUE(contains(synth_error(tiny(folder.path() / "file"), ErrorKind::bad_input), "is a file"));
  EXPECT_TRUE(contains(synth_error(tiny(folder.path() / "file/below"), ErrorKind::device), "cannot use"));
  options = tiny(folder.path() / "a");
  options.tokenizer = folder.path() / "absent.json";
  EXPECT_TRUE(contains(synth_error(options, ErrorKind::not_found), "absent.json"));
}

// Ends the process; 0: a file-size limit stopped the writing, the error named the file, and nothing stayed
// behind.
[[noreturn]] void write_with_full_disk(const fs::path& out) {
  std::signal(SIGXFSZ, SIG_IGN);  // the write fails instead of the process
  const rlimit limit{1000000, 1000000};
  setrlimit(RLIMIT_FSIZE, &limit);
  const std::string error = synth_error(tiny(out), ErrorKind::device);
  const bool named = error.find("model-00001") != std::string::npos;
  std::_Exit(named && !fs::exists(out) ? 0 : 1);
}

TEST(SyntheticDeathTest, FullDiskLeavesNothingBehind) {
  const TemporaryFolder folder;
  EXPECT_EXIT(write_with_full_disk(folder.path() / "a"), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace lily::testing
