// Names, shapes and the configuration of MLX's quantized modules.
#include "checkpoint/affine_layout.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

#include "lily/error.hpp"

namespace lily::checkpoint {
namespace {

Json pair_object(const Quantization& pair) {
  return Json::object({{"group_size", Json::integer(pair.group_size)}, {"bits", Json::integer(pair.bits)}});
}

}  // namespace

Quantization converted_quantization(std::string_view module, const Quantization& global) {
  const bool decides = module.ends_with("mlp.gate") || module.ends_with("mlp.shared_expert_gate");
  return decides ? Quantization{8, 64} : global;
}

std::vector<OutputTensor> affine_tensors(const model::TensorSpec& matrix, const Quantization& quantization) {
  const std::int64_t columns = matrix.shape.back();
  if (columns % quantization.group_size != 0) {
    throw Error(ErrorKind::bad_input, fmt::format("{}: has {} columns, groups of {} need a multiple of that",
                                                  matrix.name, columns, quantization.group_size));
  }
  const std::string module = matrix.name.substr(0, matrix.name.rfind('.'));
  std::vector<std::int64_t> packed = matrix.shape;
  packed.back() = columns * quantization.bits / 32;
  std::vector<std::int64_t> groups = matrix.shape;
  groups.back() = columns / quantization.group_size;
  return {{module + ".weight", "U32", std::move(packed)},
          {module + ".scales", "BF16", groups},
          {module + ".biases", "BF16", groups}};
}

Json quantization_object(const model::Dimensions& dims, const Quantization& global) {
  Json object = pair_object(global);
  object.set("mode", Json::string("affine"));
  for (int i = 0; i < dims.layer_count(); ++i) {
    for (const char* const name : {"gate", "shared_expert_gate"}) {
      std::string module = fmt::format("language_model.model.layers.{}.mlp.{}", i, name);
      Json pair = pair_object(converted_quantization(module, global));
      object.set(std::move(module), std::move(pair));
    }
  }
  return object;
}

}  // namespace lily::checkpoint
