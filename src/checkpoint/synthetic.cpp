// lily::synthesize: a folder with everything a real MLX 4-bit checkpoint has, and random weights.
#include <fmt/format.h>

#include "base/mapped_file.hpp"
#include "base/published_template.hpp"
#include "base/thread_pool.hpp"
#include "checkpoint/output_file.hpp"
#include "checkpoint/output_folder.hpp"
#include "checkpoint/synthetic_plan.hpp"
#include "checkpoint/synthetic_tokenizer.hpp"
#include "checkpoint/synthetic_values.hpp"
#include "checkpoint/writer.hpp"
#include "lily/error.hpp"
#include "lily/synth.hpp"

namespace lily {
namespace {

constexpr std::uint64_t kMaxTokenizerBytes = std::uint64_t{256} << 20;

std::string generation_config(const checkpoint::TokenizerFacts& facts) {
  return Json::object({
                          {"bos_token_id", Json::integer(facts.end_of_text)},
                          {"do_sample", Json::boolean(true)},
                          {"eos_token_id",
                           Json::array({Json::integer(facts.end_of_turn), Json::integer(facts.end_of_text)})},
                          {"pad_token_id", Json::integer(facts.end_of_text)},
                          {"temperature", Json::real(1)},
                          {"top_k", Json::integer(20)},
                          {"top_p", Json::real(0.95)},
                      })
      .dump();
}

std::string tokenizer_config(int max_positions) {
  return Json::object({
                          {"tokenizer_class", Json::string("Qwen2Tokenizer")},
                          {"eos_token", Json::string("<|im_end|>")},
                          {"pad_token", Json::string("<|endoftext|>")},
                          {"bos_token", Json()},
                          {"add_bos_token", Json::boolean(false)},
                          {"clean_up_tokenization_spaces", Json::boolean(false)},
                          {"model_max_length", Json::integer(max_positions)},
                      })
      .dump();
}

}  // namespace

void synthesize(const SynthOptions& options) {
  const checkpoint::SyntheticPreset preset = checkpoint::synthetic_preset(options.preset);
  const model::Dimensions& dims = preset.dimensions;
  const bool own = options.tokenizer.empty();
  const std::string tokenizer = own ? checkpoint::synthetic_tokenizer(preset.first_control_id)
                                    : read_text_file(options.tokenizer, kMaxTokenizerBytes);
  const std::string tokenizer_name = own ? "tokenizer.json" : options.tokenizer.string();
  const checkpoint::TokenizerFacts facts = checkpoint::read_tokenizer_facts(tokenizer, tokenizer_name);
  if (facts.highest_id >= dims.vocabulary) {
    throw Error(ErrorKind::bad_input,
                fmt::format("{}: has the id {}, preset {} has room for ids below {}", tokenizer_name,
                            facts.highest_id, options.preset, dims.vocabulary));
  }

  const std::vector<checkpoint::SyntheticTensor> tensors = checkpoint::synthetic_tensors(dims);
  std::vector<checkpoint::OutputTensor> outputs;
  std::uint64_t bytes = tokenizer.size();
  for (const checkpoint::SyntheticTensor& tensor : tensors) {
    outputs.push_back(tensor.output);
    bytes += tensor.output.bytes();
  }

  checkpoint::OutputFolder folder(options.out);
  folder.require_space(bytes);
  ThreadPool threads(available_cores());
  const auto fill = [&](std::size_t tensor, std::uint64_t offset, std::span<std::byte> out) {
    checkpoint::fill_synthetic(tensors[tensor], options.seed, offset, out);
  };
  checkpoint::write_shards(options.out, outputs, preset.shard_bytes, fill, threads, options.progress);
  checkpoint::write_text_file(options.out / "tokenizer.json", tokenizer);
  checkpoint::write_text_file(options.out / "tokenizer_config.json", tokenizer_config(dims.max_positions));
  checkpoint::write_text_file(options.out / "chat_template.jinja", published_chat_template());
  checkpoint::write_text_file(options.out / "generation_config.json", generation_config(facts));
  // Last: without it the folder is no checkpoint.
  checkpoint::write_text_file(options.out / "config.json",
                              checkpoint::synthetic_config(dims, facts.end_of_text).dump());
  folder.keep();
}

}  // namespace lily
