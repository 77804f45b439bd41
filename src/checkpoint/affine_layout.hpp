// How MLX's converter lays out quantized modules: bits, tensors and the `quantization` object.
#pragma once

#include <string_view>
#include <vector>

#include "checkpoint/config.hpp"
#include "checkpoint/writer.hpp"
#include "lily/json.hpp"
#include "model/dimensions.hpp"
#include "model/tensors.hpp"

namespace lily::checkpoint {

// What a module gets when the checkpoint as a whole gets `global`: router and shared-expert gate always 8
// bits in groups of 64, because a wrong choice of experts costs more than their few bytes.
Quantization converted_quantization(std::string_view module, const Quantization& global);

// Weight, scales and biases of a matrix. Throws Error(bad_input) when the groups do not fit its columns.
std::vector<OutputTensor> affine_tensors(const model::TensorSpec& matrix, const Quantization& quantization);

// The `quantization` object of config.json.
Json quantization_object(const model::Dimensions& dims, const Quantization& global);

}  // namespace lily::checkpoint
