// lily::quantize: proof of the source, plan, stream, files beside the weights.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/bf16.hpp"
#include "base/mapped_file.hpp"
#include "base/thread_pool.hpp"
#include "checkpoint/affine_layout.hpp"
#include "checkpoint/binder.hpp"
#include "checkpoint/config.hpp"
#include "checkpoint/json_fields.hpp"
#include "checkpoint/output_file.hpp"
#include "checkpoint/output_folder.hpp"
#include "checkpoint/quantizer_plan.hpp"
#include "checkpoint/quantizer_rows.hpp"
#include "checkpoint/shard_set.hpp"
#include "checkpoint/writer.hpp"
#include "lily/error.hpp"
#include "lily/quantize.hpp"

namespace lily {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{256} << 20;  // of a file that is copied
constexpr std::uint64_t kShardBytes = std::uint64_t{5} << 30;      // as MLX cuts

checkpoint::Quantization checked_quantization(const QuantizeOptions& options) {
  if (options.bits != 4 && options.bits != 8) {
    throw Error(ErrorKind::bad_input, fmt::format("bits is {}, supported are 4 and 8", options.bits));
  }
  if (options.group_size != 32 && options.group_size != 64 && options.group_size != 128) {
    throw Error(ErrorKind::bad_input,
                fmt::format("group size is {}, supported are 32, 64 and 128", options.group_size));
  }
  return {options.bits, options.group_size};
}

struct CopiedFile {
  std::string name;
  std::string text;
};

// Read before anything is written: a file that is missing or unreadable should not cost an hour of work.
std::vector<CopiedFile> read_copied_files(const fs::path& model) {
  std::vector<CopiedFile> files;
  files.push_back({"tokenizer.json", read_text_file(model / "tokenizer.json", kMaxFileBytes)});
  for (const char* const name : {"tokenizer_config.json", "chat_template.jinja", "generation_config.json"}) {
    std::error_code code;
    if (fs::exists(model / name, code)) files.push_back({name, read_text_file(model / name, kMaxFileBytes)});
  }
  return files;
}

// The source's configuration, with what the weights are now. As MLX does it: without the vision tower, whose
// weights are not there, and sorted.
Json converted_config(const fs::path& model, const model::Dimensions& dims,
                      const checkpoint::Quantization& global) {
  Json config = checkpoint::read_json_file(model / "config.json", kMaxFileBytes);
  Json::Object& members = config.as_object();
  std::erase_if(members, [](const Json::Member& member) {
    return member.first == "_name_or_path" || member.first == "vision_config";
  });
  config.set("quantization", checkpoint::quantization_object(dims, global));
  config.set("quantization_config", checkpoint::quantization_object(dims, global));
  std::sort(members.begin(), members.end(),
            [](const Json::Member& a, const Json::Member& b) { return a.first < b.first; });
  return config;
}

void write_vector(const checkpoint::QuantizePlan& plan, const checkpoint::KeptVector& vector,
                  checkpoint::ShardWriter& writer) {
  if (plan.outputs[vector.output].dtype == "F32") {
    writer.write(vector.output, 0, std::as_bytes(std::span(vector.values)));
    return;
  }
  std::vector<std::uint16_t> rounded;
  rounded.reserve(vector.values.size());
  for (const float value : vector.values) rounded.push_back(float_to_bf16(value));
  writer.write(vector.output, 0, std::as_bytes(std::span(rounded)));
}

void write_weights(const checkpoint::ShardSet& shards, const checkpoint::QuantizePlan& plan,
                   checkpoint::ShardWriter& writer) {
  for (const checkpoint::KeptVector& vector : plan.vectors) write_vector(plan, vector, writer);
  ThreadPool threads(available_cores());
  std::vector<checkpoint::RowQuantizer> quantizers(static_cast<std::size_t>(threads.size()), {shards, plan});
  const std::vector<checkpoint::RowRange> ranges = checkpoint::row_ranges(plan);
  threads.parallel_in_order(
      static_cast<std::int64_t>(ranges.size()), 1, [&](std::int64_t begin, std::int64_t end, int thread) {
        for (std::int64_t i = begin; i < end; ++i) {
          quantizers[static_cast<std::size_t>(thread)].run(ranges[static_cast<std::size_t>(i)], writer);
        }
      });
  writer.finish();
}

}  // namespace

QuantizeReport quantize(const QuantizeOptions& options) {
  const checkpoint::Quantization global = checked_quantization(options);
  const checkpoint::Config config = checkpoint::read_config(options.model);
  if (config.quantization) {
    throw Error(ErrorKind::unsupported,
                fmt::format("{}: is quantized already ({} bit, groups of {}); the unquantized original is "
                            "needed, because rounding twice loses more",
                            options.model.string(), config.quantization->global.bits,
                            config.quantization->global.group_size));
  }
  const checkpoint::ShardSet shards = checkpoint::ShardSet::open(options.model);
  const checkpoint::QuantizePlan plan = checkpoint::plan_quantization(
      shards, checkpoint::bind_tensors(shards, config), config.dimensions, global);
  const std::vector<CopiedFile> files = read_copied_files(options.model);
  const std::string config_text = converted_config(options.model, config.dimensions, global).dump();

  QuantizeReport report;
  report.tensors = static_cast<int>(plan.outputs.size());
  report.skipped_tensors = shards.skipped();
  for (const checkpoint::OutputTensor& output : plan.outputs) report.bytes += output.bytes();
  std::uint64_t needed = report.bytes + config_text.size();
  for (const CopiedFile& file : files) needed += file.text.size();

  checkpoint::OutputFolder folder(options.out);
  folder.require_space(needed);
  checkpoint::ShardWriter writer(options.out, plan.outputs, kShardBytes, options.progress);
  write_weights(shards, plan, writer);
  for (const CopiedFile& file : files) checkpoint::write_text_file(options.out / file.name, file.text);
  // Last: without it the folder is no checkpoint.
  checkpoint::write_text_file(options.out / "config.json", config_text);
  folder.keep();
  return report;
}

}  // namespace lily
