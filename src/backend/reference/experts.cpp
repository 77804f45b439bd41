// The mixture-of-experts block.
#include "backend/reference/experts.hpp"

#include <algorithm>
#include <vector>

#include "backend/reference/router.hpp"
#include "backend/reference/scalar.hpp"

namespace lily::reference {
namespace {

// down(silu(gate h) * up h)
Rows swiglu(const Context& context, const checkpoint::Matrix& gate_proj, const checkpoint::Matrix& up_proj,
            const checkpoint::Matrix& down_proj, int expert, const Rows& h) {
  Rows gated = project(context, gate_proj, expert, h);
  const Rows up = project(context, up_proj, expert, h);
  for (int token = 0; token < gated.count(); ++token) {
    for (std::size_t i = 0; i < gated.width(); ++i) {
      gated[token][i] = static_cast<float>(silu(gated[token][i]) * up[token][i]);
    }
  }
  return project(context, down_proj, expert, gated);
}

// A token waiting for an expert, and the weight its result gets.
struct Visit {
  int token = 0;
  double weight = 0;
};

}  // namespace

void add_experts(const Context& context, const checkpoint::MixtureOfExperts& moe, int experts_per_token,
                 const Rows& h, Rows& residual) {
  // Sums of a token's results in double, rounded once when they meet the residual stream.
  const std::size_t width = h.width();
  std::vector<double> sums(static_cast<std::size_t>(h.count()) * width);
  const auto add_weighted = [&](int token, double weight, std::span<const float> result) {
    double* sum = sums.data() + static_cast<std::size_t>(token) * width;
    for (std::size_t i = 0; i < width; ++i) sum[i] += weight * result[i];
  };

  const Rows logits = project(context, moe.router, 0, h);
  std::vector<std::vector<Visit>> visits(logits.width());
  for (int token = 0; token < h.count(); ++token) {
    for (const ExpertChoice& choice : choose_experts(logits[token], experts_per_token)) {
      visits[static_cast<std::size_t>(choice.expert)].push_back({token, choice.weight});
    }
  }
  for (std::size_t expert = 0; expert < visits.size(); ++expert) {
    if (visits[expert].empty()) continue;
    Rows inputs(static_cast<int>(visits[expert].size()), width);
    for (int i = 0; i < inputs.count(); ++i) {
      const std::span<const float> source = h[visits[expert][static_cast<std::size_t>(i)].token];
      std::copy(source.begin(), source.end(), inputs[i].begin());
    }
    const Rows results =
        swiglu(context, moe.gate_proj, moe.up_proj, moe.down_proj, static_cast<int>(expert), inputs);
    for (int i = 0; i < inputs.count(); ++i) {
      const Visit& visit = visits[expert][static_cast<std::size_t>(i)];
      add_weighted(visit.token, visit.weight, results[i]);
    }
  }

  const Rows shared = swiglu(context, moe.shared_gate_proj, moe.shared_up_proj, moe.shared_down_proj, 0, h);
  const Rows shared_gate = project(context, moe.shared_expert_gate, 0, h);
  for (int token = 0; token < h.count(); ++token) {
    add_weighted(token, sigmoid(shared_gate[token][0]), shared[token]);
    const double* sum = sums.data() + static_cast<std::size_t>(token) * width;
    for (std::size_t i = 0; i < width; ++i) {
      residual[token][i] = static_cast<float>(residual[token][i] + sum[i]);
    }
  }
}

}  // namespace lily::reference
