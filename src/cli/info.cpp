// `lily info`: what a checkpoint is, what it needs and whether this machine has it.
#include <fmt/core.h>

#include <memory>
#include <string>
#include <utility>

#include "cli/arguments.hpp"
#include "cli/commands.hpp"
#include "cli/engine_options.hpp"
#include "cli/input_output.hpp"
#include "lily/inspect.hpp"
#include "lily/json.hpp"

namespace lily::cli {
namespace {

Json integer(std::uint64_t value) { return Json::integer(static_cast<std::int64_t>(value)); }

Json checkpoint_to_json(const CheckpointReport& report) {
  Json notes = Json::array();
  for (const std::string& note : report.notes) notes.as_array().push_back(Json::string(note));
  Json json = Json::object();
  json.set("layout", Json::string(report.layout));
  json.set("quantization", Json::string(report.quantization));
  json.set("shards", Json::integer(report.shards));
  json.set("tensors", Json::integer(report.tensors));
  json.set("skipped_tensors", Json::integer(report.skipped_tensors));
  json.set("tensor_bytes", integer(report.tensor_bytes));
  json.set("notes", std::move(notes));
  return json;
}

Json memory_to_json(const MemoryPlan& plan) {
  Json json = Json::object();
  json.set("context", Json::integer(plan.context));
  json.set("weight_bytes", integer(plan.weight_bytes));
  json.set("sequence_bytes", integer(plan.sequence_bytes));
  json.set("activation_bytes", integer(plan.activation_bytes));
  json.set("total_bytes", integer(plan.total_bytes));
  json.set("machine_bytes", integer(plan.machine_bytes));
  json.set("fits", Json::boolean(plan.fits));
  return json;
}

Json to_json(const Inspection& inspection) {
  Json dimensions = Json::object();
  for (const auto& [name, value] : inspection.dimensions) dimensions.set(name, Json::integer(value));
  Json step = Json::object();
  step.set("weight_bytes", number_or_null(inspection.step.weight_bytes));
  step.set("state_bytes", number_or_null(inspection.step.state_bytes));
  step.set("fixed_bytes", number_or_null(inspection.step.fixed_bytes));
  step.set("bytes_per_cached_token", number_or_null(inspection.step.bytes_per_cached_token));
  Json machine = Json::object();
  machine.set("backend", Json::string(inspection.machine.backend));
  machine.set("device", inspection.machine.device.empty() ? Json() : Json::string(inspection.machine.device));
  machine.set("cores", Json::integer(inspection.machine.cores));
  machine.set("instruction_set", Json::string(inspection.machine.instruction_set));

  Json json = Json::object();
  json.set("model_id", Json::string(inspection.model_id));
  json.set("architecture", Json::string(inspection.architecture));
  json.set("vocabulary_size", Json::integer(inspection.vocabulary_size));
  json.set("dimensions", std::move(dimensions));
  json.set("checkpoint", checkpoint_to_json(inspection.checkpoint));
  json.set("memory", memory_to_json(inspection.memory));
  json.set("step", std::move(step));
  json.set("machine", std::move(machine));
  return json;
}

std::string size(double bytes) {
  if (bytes >= 1e9) return fmt::format("{:.2f} GB", bytes * 1e-9);
  if (bytes >= 1e6) return fmt::format("{:.2f} MB", bytes * 1e-6);
  return fmt::format("{:.1f} KB", bytes * 1e-3);
}
std::string size(std::uint64_t bytes) { return size(static_cast<double>(bytes)); }

void print_line(std::string_view name, const std::string& value) {
  write_output(fmt::format("  {:<32} {}\n", name, value));
}

void print_report(const Inspection& inspection) {
  write_output(fmt::format("{} ({})\n", inspection.model_id, inspection.architecture));
  for (const auto& [name, value] : inspection.dimensions) print_line(name, std::to_string(value));
  print_line("tokens in the tokenizer", std::to_string(inspection.vocabulary_size));

  const CheckpointReport& checkpoint = inspection.checkpoint;
  write_output("checkpoint\n");
  print_line("layout, quantization", fmt::format("{}, {}", checkpoint.layout, checkpoint.quantization));
  print_line("proved",
             fmt::format("{} tensors in {} files, {}; {} skipped", checkpoint.tensors, checkpoint.shards,
                         size(checkpoint.tensor_bytes), checkpoint.skipped_tensors));
  for (const std::string& note : checkpoint.notes) print_line("note", note);

  const MemoryPlan& memory = inspection.memory;
  write_output(fmt::format("memory at context {}\n", memory.context));
  print_line("weights", size(memory.weight_bytes));
  print_line("one sequence", size(memory.sequence_bytes));
  if (memory.activation_bytes > 0) print_line("  of these activations", size(memory.activation_bytes));
  print_line("together", fmt::format("{} of {}: {}", size(memory.total_bytes), size(memory.machine_bytes),
                                     memory.fits ? "fits" : "does not fit"));

  const StepCost& step = inspection.step;
  write_output("one decode step moves\n");
  print_line("weights", size(step.weight_bytes));
  print_line("recurrent state", size(step.state_bytes));
  print_line("per cached token", size(step.bytes_per_cached_token));

  write_output("machine\n");
  print_line("backend", inspection.machine.backend);
  if (!inspection.machine.device.empty()) print_line("device", inspection.machine.device);
  print_line("cores", std::to_string(inspection.machine.cores));
  print_line("instruction set", inspection.machine.instruction_set);
}

struct InfoFlags {
  InspectOptions options;
  bool json = false;
};

}  // namespace

void add_info(CLI::App& program) {
  const auto flags = std::make_shared<InfoFlags>();
  Arguments arguments(program, "info", "Show what a checkpoint is and what it needs, without loading it");
  InspectOptions& options = flags->options;
  add_model_option(arguments, options.model);
  add_context_option(arguments, options.context);
  add_backend_option(arguments, options.backend);
  add_kv_option(arguments, options.kv);
  arguments.flag("--json", flags->json, "One JSON object")
      .examples(
          "Examples:\n"
          "  lily info --model models/lily-mini\n"
          "  lily info --model DIR --context 131072 --kv int8 --json\n"
          "  lily info --model DIR --backend cuda")
      .run([flags] {
        const Inspection inspection = inspect(flags->options);
        if (flags->json) {
          write_output(to_json(inspection).dump() + "\n");
        } else {
          print_report(inspection);
        }
      });
}

}  // namespace lily::cli
