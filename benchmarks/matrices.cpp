// Packed matrices times one token (decode) and many (prefill), in the shapes and loops of the 35B model.
#include <algorithm>
#include <memory>

#include "backend/cpu/forward.hpp"
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

cpu::RowFormat decode_rows(bool exact) {
  return exact ? cpu::RowFormat::two_terms : cpu::RowFormat::one_term;
}
cpu::RowFormat prefill_rows(const Machine& machine, bool exact) {
  return exact ? cpu::RowFormat::two_terms : machine.kernels.fast_rows;
}

// Rounded rows and room for products, kept alive by the call that uses them.
struct Buffers {
  Buffers(const Machine& machine, const Shape& shape, int tokens, cpu::RowFormat format)
      : rows(tokens, shape.columns, format), stride(cpu::stride_of(shape.matrix(0).blocks() * kLanes)) {
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

// `together` matrices that lie apart, as the experts of a token do, from memory in one parallel loop: pieces
// of about 96 KiB, as in decode.
void add_decode(const Shape& shape, int together, bool exact) {
  const std::string name = std::string("decode/") + (shape.planes == 1 ? "4bit/" : "8bit/") + shape.name +
                           "/" + activations(exact);
  const PackedMatrix sizes{nullptr, shape.rows, shape.columns / cpu::kGroup, shape.planes};
  const double bytes = static_cast<double>(sizes.bytes()) * together;
  add(name, Limit::memory, bytes, [shape, together, exact, sizes](const Machine& machine) -> Call {
    working_set().fill_matrices(shape.planes);
    const auto buffers = std::make_shared<Buffers>(machine, shape, 1, decode_rows(exact));
    buffers->out.resize(product(together, static_cast<int>(buffers->stride)));
    const int piece = std::max(1, static_cast<int>((std::size_t{96} << 10) / sizes.block_bytes()));
    const int pieces = (sizes.blocks() + piece - 1) / piece;
    return [machine, shape, together, buffers, piece, pieces, index = 0]() mutable {
      const auto run = [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
        for (std::int64_t i = begin; i < end; ++i) {
          const int chosen = static_cast<int>(i) / pieces, first = static_cast<int>(i) % pieces * piece;
          const PackedMatrix matrix = shape.matrix(together == 1 ? index : (index + chosen) * 37);
          machine.kernels.matmul(matrix, first, std::min(first + piece, matrix.blocks()),
                                 buffers->rows.data(), 1,
                                 buffers->out.data() + product(chosen, static_cast<int>(buffers->stride)), 0);
        }
      };
      machine.pool.parallel_for(static_cast<std::int64_t>(together) * pieces, 1, run);
      index += together;
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
        const auto buffers = std::make_shared<Buffers>(machine, shape, kChunk, prefill_rows(machine, exact));
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

// 1,024 rows of a projection with a chunk of 512 tokens, as many blocks at a time as prefill takes.
void add_projection(const Shape& shape, bool exact) {
  const std::string name = std::string("prefill/") + (shape.planes == 1 ? "" : "8bit/") + shape.name +
                           "/tokens:512/" + activations(exact);
  add(name, Limit::integer, operations(shape, kChunk), [shape, exact](const Machine& machine) -> Call {
    working_set().fill_matrices(shape.planes);
    const auto buffers = std::make_shared<Buffers>(machine, shape, kChunk, prefill_rows(machine, exact));
    buffers->out.resize(product(kChunk, static_cast<int>(buffers->stride)));
    return [machine, shape, buffers, index = 0]() mutable {
      const PackedMatrix matrix = shape.matrix(index++);
      const int piece =
          std::min(machine.kernels.blocks_at_once, std::max(1, matrix.blocks() / machine.pool.size()));
      machine.pool.parallel_for(
          matrix.blocks(), piece, [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
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
    for (const Shape& shape : {delta_in, delta_out, attention_in, head, router}) add_decode(shape, 1, exact);
    const int active = dims.experts_per_token + 1;
    add_decode(gate_up, active, exact);
    add_decode(down, active, exact);
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
