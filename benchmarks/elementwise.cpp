// Kernels that work in the cache: norms, gates, convolution, sums, activations, the choice of experts.
#include <algorithm>
#include <memory>

#include "backend/cpu/routing.hpp"
#include "harness.hpp"
#include "inputs.hpp"

namespace lily::benchmarks {

namespace {

constexpr int kRepeats = 64;  // one row takes less than a microsecond
constexpr int kArrays = 12;   // rows that a kernel may read and write

// Buffers of one thread.
struct Rows {
  explicit Rows(int length)
      : n(length), values(random_values(product(kArrays, n))), exact(1, n, true), fast(1, n, false) {}
  float* operator[](int i) { return values.data() + product(i, n); }
  int n;
  std::vector<float> values;
  cpu::ActivationRows exact, fast;
};

using Body = std::function<void(const cpu::Kernels&, Rows&)>;

// Every thread repeats `body` on rows of its own; `floats` is what one repetition reads and writes.
void add_rows(const std::string& name, int n, double floats, Body body) {
  add(
      name, Limit::cache, [floats](int threads) { return threads * kRepeats * floats * 4; },
      [n, body = std::move(body)](const Machine& machine) -> Call {
        const auto rows = std::make_shared<std::vector<Rows>>();
        for (int t = 0; t < machine.pool.size(); ++t) rows->emplace_back(n);
        return [machine, rows, body] {
          machine.pool.parallel_for(machine.pool.size(), 1,
                                    [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
                                      for (std::int64_t t = begin; t < end; ++t) {
                                        for (int i = 0; i < kRepeats; ++i)
                                          body(machine.kernels, (*rows)[static_cast<std::size_t>(t)]);
                                      }
                                    });
        };
      });
}

void add_quantize(int columns, bool exact) {
  const std::string name = std::string("quantize/") + std::to_string(columns) + (exact ? "/exact" : "/fast");
  const double codes = columns * (exact ? 2.0 : 1.0), floats = columns + 2.0 * columns / cpu::kGroup;
  add_rows(name, columns, floats + codes / 4, [columns, exact](const cpu::Kernels& kernels, Rows& rows) {
    kernels.quantize(rows[0], columns, exact ? rows.exact[0] : rows.fast[0]);
  });
}

}  // namespace

void add_elementwise_benchmarks() {
  const model::Dimensions& dims = dimensions();
  const int hidden = dims.hidden_size;
  const auto eps = static_cast<float>(dims.rms_norm_eps);
  for (const bool exact : {true, false}) {
    add_quantize(hidden, exact);
    add_quantize(dims.expert_size, exact);
  }
  add_rows("rms_norm/hidden", hidden, 3.0 * hidden, [hidden, eps](const cpu::Kernels& kernels, Rows& rows) {
    kernels.rms_norm(rows[0], rows[1], eps, hidden, rows[2]);
  });
  const int key_dim = dims.key_dim, value_dim = dims.value_dim, expert = dims.expert_size;
  add_rows("l2_normalize/key", key_dim, 2.0 * key_dim,
           [key_dim, eps](const cpu::Kernels& kernels, Rows& rows) {
             kernels.l2_normalize(rows[0], eps, 1, key_dim);
           });
  add_rows("gated_rms_norm/head", value_dim, 4.0 * value_dim,
           [value_dim, eps](const cpu::Kernels& kernels, Rows& rows) {
             kernels.gated_rms_norm(rows[0], rows[1], rows[2], eps, value_dim, rows[3]);
           });
  add_rows("silu_multiply/expert", expert, 3.0 * expert, [expert](const cpu::Kernels& kernels, Rows& rows) {
    kernels.silu_multiply(rows[0], rows[1], expert, rows[2]);
  });
  const int head_dim = dims.head_dim;
  add_rows("sigmoid_multiply/head", head_dim, 4.0 * head_dim,
           [head_dim](const cpu::Kernels& kernels, Rows& rows) {
             // A gate of 30, written each time, keeps what is multiplied again and again from sinking into
             // denormals.
             std::fill_n(rows[0], head_dim, 30.0F);
             kernels.sigmoid_multiply(rows[0], head_dim, rows[1]);
           });
  const int active = dims.experts_per_token + 1;
  add_rows("add_weighted/experts", hidden, (active + 2.0) * hidden,
           [hidden, active](const cpu::Kernels& kernels, Rows& rows) {
             const float* outputs[kArrays];
             float weights[kArrays];
             for (int i = 0; i < active; ++i) outputs[i] = rows[i + 1];
             for (float& weight : weights) weight = 1e-3F;
             kernels.add_weighted(outputs, weights, active, hidden, rows[0]);
           });
  const int channels = dims.conv_channels(), taps = dims.conv_kernel;
  add_rows("convolve/layer", channels, (2.0 * taps + 1) * channels,
           [channels, taps](const cpu::Kernels& kernels, Rows& rows) {
             const float* window[kArrays];
             for (int i = 0; i < taps; ++i) window[i] = rows[i];
             kernels.convolve(window, 0, rows[taps], channels, taps, channels, rows[2 * taps]);
           });
  // The same code on every set: a scan for the largest logits.
  const int experts = dims.experts, selected = dims.experts_per_token;
  add_rows("select_experts", experts, experts,
           [experts, selected](const cpu::Kernels& /*kernels*/, Rows& rows) {
             cpu::Route routes[kArrays];
             cpu::select_experts(rows[0], experts, selected, 0, routes);
           });
}

}  // namespace lily::benchmarks
