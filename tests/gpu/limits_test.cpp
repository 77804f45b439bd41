// What the GPU kernels refuse: every limit at its last good value and one beyond, named with value and limit.
#include "backend/gpu/limits.hpp"

#include <gtest/gtest.h>

#include <string>

#include "support/raises.hpp"

namespace lily::gpu {
namespace {

// As the 35B model.
model::Dimensions good() {
  model::Dimensions dims;
  dims.hidden_size = 2048;
  dims.vocabulary = 248320;
  dims.max_positions = 262144;
  dims.rms_norm_eps = 1e-6;
  dims.layers = {model::LayerKind::delta_net, model::LayerKind::attention};
  dims.attention_heads = 16;
  dims.kv_heads = 2;
  dims.head_dim = 256;
  dims.rotary_dim = 64;
  dims.rope_theta = 1e7;
  dims.key_heads = 16;
  dims.value_heads = 32;
  dims.key_dim = dims.value_dim = 128;
  dims.conv_kernel = 4;
  dims.experts = 256;
  dims.experts_per_token = 8;
  dims.expert_size = dims.shared_expert_size = 512;
  return dims;
}

struct Limit {
  const char* name;  // as config.json has it
  int model::Dimensions::*field;
  int last, beyond;  // values of the field
  int shown;         // of what is limited
  int limit;
};

TEST(GpuLimits, DimensionsBeyondTheKernelsAreRefusedByName) {
  ASSERT_NO_THROW(require_kernels(good()));
  using D = model::Dimensions;
  for (const Limit& limit :
       {Limit{"head_dim", &D::head_dim, 256, 128, 128, 256},
        Limit{"rotary_dim", &D::rotary_dim, 64, 32, 32, 64},
        Limit{"linear_key_head_dim", &D::key_dim, 128, 64, 64, 128},
        Limit{"linear_value_head_dim", &D::value_dim, 128, 64, 64, 128},
        Limit{"linear_conv_kernel_dim", &D::conv_kernel, 4, 3, 3, 4},
        Limit{"vocab_size", &D::vocabulary, 262143, 262144, 262144, 262143},
        Limit{"hidden_size", &D::hidden_size, 4096, 4160, 4160, 4096},
        Limit{"num_attention_heads * head_dim", &D::attention_heads, 16, 18, 4608, 4096},
        Limit{"linear_num_value_heads * linear_value_head_dim", &D::value_heads, 32, 48, 6144, 4096},
        Limit{"query heads per KV head", &D::kv_heads, 2, 1, 16, 8},
        Limit{"num_experts", &D::experts, 256, 257, 257, 256},
        Limit{"num_experts_per_tok", &D::experts_per_token, 8, 9, 9, 8},
        Limit{"input blocks of 256 of all experts of a token", &D::expert_size, 512, 576, 26, 18},
        Limit{"input blocks of 256 of all experts of a token", &D::shared_expert_size, 512, 576, 19, 18}}) {
    model::Dimensions dims = good();
    dims.*limit.field = limit.last;
    EXPECT_NO_THROW(require_kernels(dims)) << limit.name;
    dims.*limit.field = limit.beyond;
    const Error error = testing::raised([&] { require_kernels(dims); });
    EXPECT_EQ(error.kind(), ErrorKind::unsupported) << limit.name;
    testing::expect_mentions(error, std::string(limit.name) + " is " + std::to_string(limit.shown));
    testing::expect_mentions(error, std::to_string(limit.limit));
  }
}

TEST(GpuLimits, FormatsWithoutAKernelAreRefusedByTheTensorsName) {
  checkpoint::Matrix matrix;
  matrix.name = "layers.3.mlp.gate";
  matrix.format = checkpoint::MatrixFormat::bf16;
  Error error = testing::raised([&] { require_kernel(matrix); });
  EXPECT_EQ(error.kind(), ErrorKind::unsupported);
  testing::expect_mentions(error, "layers.3.mlp.gate");
  testing::expect_mentions(error, "not quantized");
  for (const auto format : {checkpoint::MatrixFormat::affine4, checkpoint::MatrixFormat::affine8}) {
    matrix.format = format;
    for (const int group : {64, 128}) {
      matrix.group_size = group;
      EXPECT_NO_THROW(require_kernel(matrix));
    }
    matrix.group_size = 32;
    error = testing::raised([&] { require_kernel(matrix); });
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    testing::expect_mentions(error, "layers.3.mlp.gate: group size 32");
  }
}

}  // namespace
}  // namespace lily::gpu
