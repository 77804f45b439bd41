// Ctrl-C while a checkpoint is written: what was written is taken back, and the status is a shell's.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/edited_checkpoint.hpp"
#include "lily/json.hpp"
#include "serve/process.hpp"
#include "support/fixtures.hpp"

namespace lily::testing {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

// Starts `lily`, interrupts it when something is in `out`, and expects that nothing is there afterwards.
void expect_taken_back(std::vector<std::string> command, const fs::path& out) {
  command.insert(command.begin(), LILY_PROGRAM);
  command.insert(command.end(), {"--out", out.string()});
  serve_test::Process process(command);
  std::error_code none;
  while (!process.wait(0ms) && (!fs::exists(out) || fs::is_empty(out, none)))
    std::this_thread::sleep_for(1ms);
  ASSERT_FALSE(process.wait(0ms)) << process.error_text();
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(60s), 128 + SIGINT);
  EXPECT_EQ(process.error_text(), "");
  EXPECT_FALSE(fs::exists(out));
}

// The tiny model with two million token rows, all zero: some seconds of work, and no room on the disk.
void write_large_model(const fs::path& folder) {
  constexpr std::int64_t kRows = 1 << 21, kBytes = kRows * 128 * 2;
  EditedCheckpoint model = EditedCheckpoint::load(kTinyBf16);
  model.patch_config("text_config.vocab_size", Json::integer(kRows));
  const std::vector<std::string> tables = {"model.language_model.embed_tokens.weight", "lm_head.weight"};
  for (const std::string& name : tables) model.tensors.erase(name);
  model.save(folder);
  fs::copy_file(kTinyBf16 / "tokenizer.json", folder / "tokenizer.json");

  const fs::path index = folder / "model.safetensors.index.json";
  Json files = Json::parse(read_file(index));
  Json header = Json::object();
  std::int64_t end = 0;
  for (const std::string& name : tables) {
    files.as_object().front().second.set(name, Json::string("tables.safetensors"));
    header.set(name, Json::object(
                         {{"dtype", Json::string("BF16")},
                          {"shape", Json::array({Json::integer(kRows), Json::integer(128)})},
                          {"data_offsets", Json::array({Json::integer(end), Json::integer(end + kBytes)})}}));
    end += kBytes;
  }
  write_file(index, files.dump());
  const std::string bytes = safetensors_bytes(header.dump(), "");
  write_file(folder / "tables.safetensors", bytes);
  fs::resize_file(folder / "tables.safetensors", bytes.size() + static_cast<std::uint64_t>(end));
}

TEST(Interrupted, QuantizeTakesBackWhatItWrote) {
  const TemporaryFolder folder;
  const fs::path model = folder.path() / "model";
  fs::create_directory(model);
  write_large_model(model);
  expect_taken_back({"quantize", "--model", model.string()}, folder.path() / "out");
}

TEST(Interrupted, SynthTakesBackWhatItWrote) {
  const TemporaryFolder folder;
  if (fs::space(folder.path()).available < 20'000'000'000U) {
    GTEST_SKIP() << "the large preset needs 20 GB free, although little is written before the interrupt";
  }
  expect_taken_back({"synth"}, folder.path() / "out");
}

}  // namespace
}  // namespace lily::testing
