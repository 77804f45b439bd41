// From the tensors of either layout to those of the MLX layout.
#include "checkpoint/quantizer_plan.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <utility>

#include "base/bf16.hpp"
#include "checkpoint/affine_layout.hpp"
#include "checkpoint/tensor_names.hpp"
#include "lily/error.hpp"
#include "model/tensors.hpp"

namespace lily::checkpoint {
namespace {

constexpr std::string_view kWeightSuffix = ".weight";

const Matrix& bound_matrix(const BoundTensors& bound, const std::string& module) {
  const auto found = bound.matrices.find(module);
  if (found == bound.matrices.end()) {
    throw Error(ErrorKind::internal, fmt::format("module {} was not bound", module));
  }
  return found->second;
}

// The matrix behind a module of the MLX layout (canonical path).
Matrix source_matrix(const BoundTensors& bound, const std::string& module) {
  constexpr std::string_view kExperts = "switch_mlp.";
  const std::size_t place = module.find(kExperts);
  if (bound.layout == model::Layout::mlx || place == std::string::npos) return bound_matrix(bound, module);
  const std::string prefix = module.substr(0, place) + "experts.";
  const std::string name = module.substr(place + kExperts.size());
  if (name == "down_proj") return bound_matrix(bound, prefix + name);
  // Each expert's rows: the gate half, then the up half.
  Matrix half = bound_matrix(bound, prefix + "gate_up_proj");
  half.rows /= 2;
  if (name == "up_proj") half.first_row = half.rows;
  return half;
}

// MLX keeps A_log, which is exponentiated twice, in the type it came in; other vectors become bf16.
std::string kept_type(const ShardSet& shards, const std::string& name) {
  return name.ends_with("A_log") ? shards.tensors().at(name).stored.dtype : "BF16";
}

// A value too large for bf16 would become infinite, and nobody opens a checkpoint with that.
void require_bf16(const ShardSet& shards, const std::string& name, const std::vector<float>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(bf16_to_float(float_to_bf16(values[i])))) continue;
    const LocatedTensor& tensor = shards.tensors().at(name);
    throw Error(ErrorKind::bad_input,
                fmt::format("{}: tensor {}: value {} at index {} is too large for bf16",
                            shards.files()[static_cast<std::size_t>(tensor.shard)].path().string(),
                            tensor.stored.name, values[i], i));
  }
}

}  // namespace

QuantizePlan plan_quantization(const ShardSet& shards, BoundTensors bound, const model::Dimensions& dims,
                               const Quantization& global) {
  QuantizePlan plan;
  for (const model::TensorSpec& spec : model::expected_tensors(dims, model::Layout::mlx)) {
    const std::string name = canonical_name(spec.name);
    if (spec.kind != model::TensorKind::matrix) {
      const std::string type = kept_type(shards, name);
      if (type == "BF16") require_bf16(shards, name, bound.vectors.at(name));
      plan.vectors.push_back({std::move(bound.vectors.at(name)), plan.outputs.size()});
      plan.outputs.push_back({spec.name, type, spec.shape});
      continue;
    }
    const std::string module = name.substr(0, name.size() - kWeightSuffix.size());
    const Quantization quantization = converted_quantization(module, global);
    plan.matrices.push_back({source_matrix(bound, module), quantization, plan.outputs.size()});
    for (OutputTensor& output : affine_tensors(spec, quantization)) plan.outputs.push_back(std::move(output));
  }
  return plan;
}

}  // namespace lily::checkpoint
