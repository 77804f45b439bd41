// Packed matrices times one token (decode) and many (prefill), in the shapes and loops of the 35B model.
#include <algorithm>
#include <memory>

#include "harness.hpp"
#include "inputs.hpp"
#include "working_set.hpp"

namespace lily::benchmarks {

namespace {

using cpu::ActivationRow;
using cpu::kLanes;
using cpu::PackedMatrix;

constexpr int kExperts = 8;  // multiplied by one call
constexpr int kChunk = 512;  // tokens of a chunk of prefill

struct Shape {
  const char* name;
  int rows, columns;
  int planes = 1;

  PackedMatrix matrix(int index) const { return working_set().matrix(rows, columns, planes, index); }
};

// Quantized rows and room for products, kept alive by the call that uses them.
struct Buffers {
  Buffers(const Machine& machine, const Shape& shape, int tokens, bool exact)
      : rows(tokens, shape.columns, exact), stride(shape.matrix(0).blocks() * kLanes) {
    const std::vector<float> x = random_values(product(tokens, shape.columns));
    for (int t = 0; t < tokens; ++t) {
      machine.kernels.quantize(x.data() + product(t, shape.columns), shape.columns, rows[t]);
    }
  }
  cpu::ActivationRows rows;
  std::ptrdiff_t stride;
  std::vector<float> out;
};

const char* activations(bool exact) { return exact ? "exact" : "fast"; }

// One matrix after another from memory, its blocks shared out in pieces of about 96 KiB as in decode.
void add_decode(const Shape& shape, bool exact) {
  const std::string name = std::string("decode/") + (shape.planes == 1 ? "4bit/" : "8bit/") + shape.name +
                           "/" + activations(exact);
  const auto bytes = static_cast<double>(
      PackedMatrix{nullptr, shape.rows, shape.columns / cpu::kGroup, shape.planes}.bytes());
  add(name, Limit::memory, bytes, [shape, exact](const Machine& machine) -> Call {
    working_set().fill_matrices(shape.planes);
    const auto buffers = std::make_shared<Buffers>(machine, shape, 1, exact);
    buffers->out.resize(static_cast<std::size_t>(buffers->stride));
    const auto piece =
        std::max<std::int64_t>(1, static_cast<std::int64_t>((96 << 10) / shape.matrix(0).block_bytes()));
    return [machine, shape, buffers, piece, index = 0]() mutable {
      const PackedMatrix matrix = shape.matrix(index++);
      machine.pool.parallel_for(
          matrix.blocks(), piece, [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
            machine.kernels.matmul(matrix, static_cast<int>(begin), static_cast<int>(end),
                                   buffers->rows.data(), 1, buffers->out.data(), 0);
          });
    };
  });
}

double operations(const Shape& shape, int tokens) { return 2.0 * shape.rows * shape.columns * tokens; }

// Eight experts from memory, each with its tokens, one expert a thread; rows lie scattered, as routing does.
void add_experts(const Shape& shape, int tokens, bool exact) {
  const std::string name =
      std::string("prefill/") + shape.name + "/tokens:" + std::to_string(tokens) + "/" + activations(exact);
  add(name, Limit::integer, kExperts * operations(shape, tokens),
      [shape, tokens, exact](const Machine& machine) -> Call {
        working_set().fill_matrices(shape.planes);
        const auto buffers = std::make_shared<Buffers>(machine, shape, kChunk, exact);
        buffers->out.resize(product(kExperts * tokens, static_cast<int>(buffers->stride)));
        std::vector<ActivationRow> gathered;
        for (int i = 0; i < kExperts * tokens; ++i) gathered.push_back(buffers->rows[i * 37 % kChunk]);
        return [machine, shape, tokens, buffers, gathered, index = 0]() mutable {
          machine.pool.parallel_for(kExperts, 1, [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
            for (int e = static_cast<int>(begin); e < static_cast<int>(end); ++e) {
              const PackedMatrix matrix = shape.matrix(index + e);
              machine.kernels.matmul(
                  matrix, 0, matrix.blocks(), gathered.data() + product(e, tokens), tokens,
                  buffers->out.data() + product(e * tokens, static_cast<int>(buffers->stride)),
                  buffers->stride);
            }
          });
          index += kExperts;
        };
      });
}

// 1,024 rows of a projection with a chunk of 512 tokens, four blocks at a time.
void add_projection(const Shape& shape, bool exact) {
  const std::string name = std::string("prefill/") + (shape.planes == 1 ? "" : "8bit/") + shape.name +
                           "/tokens:512/" + activations(exact);
  add(name, Limit::integer, operations(shape, kChunk), [shape, exact](const Machine& machine) -> Call {
    working_set().fill_matrices(shape.planes);
    const auto buffers = std::make_shared<Buffers>(machine, shape, kChunk, exact);
    buffers->out.resize(product(kChunk, static_cast<int>(buffers->stride)));
    return [machine, shape, buffers, index = 0]() mutable {
      const PackedMatrix matrix = shape.matrix(index++);
      machine.pool.parallel_for(
          matrix.blocks(), 4, [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
            machine.kernels.matmul(matrix, static_cast<int>(begin), static_cast<int>(end),
                                   buffers->rows.data(), kChunk, buffers->out.data(), buffers->stride);
          });
    };
  });
}

}  // namespace

void add_matrix_benchmarks() {
  const model::Dimensions& dims = dimensions();
  const int hidden = dims.hidden_size;
  const Shape gate_up{"expert_gate_up", 2 * dims.expert_size, hidden};
  const Shape down{"expert_down", hidden, dims.expert_size};
  const Shape router{"router", dims.experts + 1, hidden, 2};
  const Shape delta_in{"delta_net_in", dims.conv_channels() + dims.value_rows() + 2 * dims.value_heads,
                       hidden};
  const Shape delta_out{"delta_net_out", hidden, dims.value_rows()};
  const Shape attention_in{"attention_in", dims.query_gate_rows() + 2 * dims.kv_rows(), hidden};
  const Shape head{"head", dims.vocabulary, hidden};
  for (const bool exact : {true, false}) {
    for (const Shape& shape : {delta_in, delta_out, attention_in, gate_up, down, head, router}) {
      add_decode(shape, exact);
    }
    for (const int tokens : {4, 16, 64}) {
      add_experts(gate_up, tokens, exact);
      add_experts(down, tokens, exact);
    }
    add_projection({"rows_of_2048", 1024, hidden}, exact);
    add_projection({"rows_of_4096", 1024, dims.value_rows()}, exact);
  }
  add_projection(router, true);
}

}  // namespace lily::benchmarks
