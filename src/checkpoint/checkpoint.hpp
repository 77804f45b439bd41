// A proved checkpoint: every tensor of the architecture exactly once, with shape, type and byte range
// checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.hpp"
#include "checkpoint/config.hpp"
#include "model/dimensions.hpp"
#include "model/tensors.hpp"

namespace lily::checkpoint {

// Bytes of one tensor (or of a run of rows of it) in one shard, inside the file by construction.
struct Extent {
  int shard = 0;
  std::uint64_t offset = 0;  // from the beginning of the file
  std::uint64_t bytes = 0;
};

enum class MatrixFormat { affine4, affine8, bf16, f32 };

// y = W x with W [rows, columns], or one such matrix per expert.
//
// affine: weight [experts, rows, columns * bits / 32] u32 little endian, lowest bits first; scales and biases
// [experts, rows, columns / group_size] bf16; w = scale * code + bias. Scales may be negative.
struct Matrix {
  std::string name;  // module path, for messages
  MatrixFormat format = MatrixFormat::bf16;
  int experts = 1;
  std::int64_t rows = 0;  // per expert
  std::int64_t columns = 0;
  int group_size = 0;  // affine only
  // Experts of a fused tensor lie `expert_stride_rows` apart and begin at `first_row`
  // (up_proj inside gate_up_proj); otherwise stride == rows and first_row == 0.
  std::int64_t expert_stride_rows = 0;
  std::int64_t first_row = 0;
  Extent weight;  // whole tensor
  Extent scales;  // affine only
  Extent biases;  // affine only

  std::uint64_t weight_row_bytes() const;  // of one row of `weight`
  std::uint64_t scale_row_bytes() const;   // of one row of `scales` (and of `biases`)
  std::int64_t row_index(int expert, std::int64_t row) const {
    return expert * expert_stride_rows + first_row + row;
  }
  std::uint64_t stored_bytes() const;  // weight + scales + biases belonging to this matrix
};

struct Attention {
  Matrix q_proj;  // rows: per head, head_dim query rows then head_dim gate rows
  Matrix k_proj, v_proj, o_proj;
  std::vector<float> q_norm, k_norm;  // [head_dim], factor to multiply with (1 already added)
};

struct DeltaNet {
  Matrix in_proj_qkv, in_proj_z, in_proj_b, in_proj_a, out_proj;
  std::vector<float> convolution;     // [channels][kernel]; the last tap is the current token
  std::vector<float> a_log, dt_bias;  // [value_heads]
  std::vector<float> norm;            // [value_dim], plain weight
};

struct MixtureOfExperts {
  Matrix router;              // [experts, hidden]
  Matrix gate_proj, up_proj;  // per expert [expert_size, hidden]
  Matrix down_proj;           // per expert [hidden, expert_size]
  Matrix shared_gate_proj, shared_up_proj, shared_down_proj;
  Matrix shared_expert_gate;  // [1, hidden]
};

struct Layer {
  model::LayerKind kind = model::LayerKind::delta_net;
  std::vector<float> input_norm, post_attention_norm;  // [hidden], factor (1 already added)
  std::optional<Attention> attention;                  // exactly one of the two
  std::optional<DeltaNet> delta_net;
  MixtureOfExperts moe;
};

// Opened once, shared by all readers; thread-safe after construction.
class Checkpoint {
 public:
  // Opens, proves and binds. Small vectors are read and widened to fp32 (norm factors with 1 added where the
  // layout stores w); matrices stay in their files. Throws Error naming file, tensor, value and limit.
  static std::shared_ptr<const Checkpoint> open(const std::filesystem::path& folder);

  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;
  ~Checkpoint();

  const Config& config() const;
  const model::Dimensions& dimensions() const;
  model::Layout layout() const;

  const Matrix& embedding() const;  // [vocabulary, hidden]
  const Matrix& head() const;       // [vocabulary, hidden]
  const std::vector<float>& final_norm() const;
  const std::vector<Layer>& layers() const;

  // What the proof found: shards, tensors, bytes, skipped tensors (a line each, for `lily info` and the log).
  struct Proof {
    int shards = 0;
    int tensors = 0;
    int skipped = 0;                 // vision and MTP
    std::uint64_t tensor_bytes = 0;  // of the read ones
    std::vector<std::string> notes;
  };
  const Proof& proof() const;

  // The mapped bytes of an extent (small pages, page cache): for the reference backend and tests.
  std::span<const std::byte> mapped(const Extent& extent) const;
  // Reads `out.size()` bytes at `offset` of the extent into place, without mapping; any thread. Throws
  // Error(device) naming the file when the file shrank or cannot be read.
  void read(const Extent& extent, std::uint64_t offset, std::span<std::byte> out) const;
  // A shard, for reading many extents at once.
  const MappedFile& file(int shard) const;
  // Lets the page cache go of bytes of a shard that were read; any thread. `forget_all`: of all shards.
  void forget(int shard, std::uint64_t offset, std::uint64_t length) const noexcept;
  void forget_all() const noexcept;

 private:
  struct Impl;
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// One row of a matrix as fp32 (decoded with fp32 scale * code + bias). `out.size()` must be `columns`.
void decode_row(const Checkpoint& checkpoint, const Matrix& matrix, int expert, std::int64_t row,
                std::span<float> out);

}  // namespace lily::checkpoint
