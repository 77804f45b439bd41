// What the GPU kernels can run.
#include "backend/gpu/limits.hpp"

#include <fmt/format.h>

#include "backend/gpu/kernels/args.h"
#include "lily/error.hpp"

namespace lily::gpu {
namespace {

void require_equal(const char* name, int value, uint needed) {
  if (value != static_cast<int>(needed)) {
    throw Error(ErrorKind::unsupported,
                fmt::format("{} is {}; the GPU kernels need {}", name, value, needed));
  }
}

void require_at_most(const char* name, int value, uint limit) {
  if (value > static_cast<int>(limit)) {
    throw Error(ErrorKind::unsupported,
                fmt::format("{} is {}; the GPU kernels take up to {}", name, value, limit));
  }
}

int blocks_of(int inputs) {
  constexpr int kInputs = WeightBlock::inputs;
  return (inputs + kInputs - 1) / kInputs;
}

}  // namespace

void require_kernels(const model::Dimensions& dims) {
  require_equal("head_dim", dims.head_dim, AttentionPrepare::dim);
  require_equal("rotary_dim", dims.rotary_dim, AttentionPrepare::rotated);
  require_equal("linear_key_head_dim", dims.key_dim, DeltaStep::dim);
  require_equal("linear_value_head_dim", dims.value_dim, DeltaStep::dim);
  require_equal("linear_conv_kernel_dim", dims.conv_kernel, DeltaRing::taps);
  require_at_most("vocab_size", dims.vocabulary, SampleShape::max_rows);
  require_at_most("hidden_size", dims.hidden_size, NormProject::max_inputs);
  require_at_most("num_attention_heads * head_dim", dims.attention_rows(), AddProject::max_inputs);
  require_at_most("linear_num_value_heads * linear_value_head_dim", dims.value_rows(),
                  AddGatedProject::max_inputs);
  require_at_most("query heads per KV head", dims.queries_per_kv(), AttentionDecode::max_group);
  require_at_most("num_experts", dims.experts, ExpertGateUp::max_experts);
  require_at_most("num_experts_per_tok", dims.experts_per_token, ExpertGateUp::max_picks);
  require_at_most("input blocks of 256 of all experts of a token",
                  dims.experts_per_token * blocks_of(dims.expert_size) + blocks_of(dims.shared_expert_size),
                  ExpertDown::max_blocks);
}

void require_kernel(const checkpoint::Matrix& matrix) {
  using checkpoint::MatrixFormat;
  if (matrix.format != MatrixFormat::affine4 && matrix.format != MatrixFormat::affine8) {
    throw Error(
        ErrorKind::unsupported,
        fmt::format(
            "{}: the GPU kernels read 4-bit and 8-bit affine checkpoints, this tensor is not quantized; "
            "use --backend reference or a quantized checkpoint",
            matrix.name));
  }
  if (matrix.group_size != 64 && matrix.group_size != 128) {
    throw Error(ErrorKind::unsupported, fmt::format("{}: group size {} has no GPU kernel, 64 and 128 have",
                                                    matrix.name, matrix.group_size));
  }
}

}  // namespace lily::gpu
