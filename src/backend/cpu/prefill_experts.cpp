// The mixture of experts in prefill: tokens are sorted by expert, each expert multiplies its tokens at once.
#include <algorithm>
#include <cmath>

#include "backend/cpu/forward.hpp"

namespace lily::cpu {

void Prefiller::experts(const LayerWeights& layer, int layer_index, int tokens) {
  const int hidden = context_.dims.hidden_size;
  normalize_and_quantize(layer.post_attention_norm, 0, tokens, true);
  multiply(layer.router, router_rows_.data(), tokens, router_.data(), sizes_.router_rows);
  route_tokens(layer_index, tokens);
  in_halves_ ? run_experts(layer, tokens, slot_halves_, half_stride_of(hidden))
             : run_experts(layer, tokens, slots_, stride_of(hidden));
}

template <class Result>
void Prefiller::run_experts(const LayerWeights& layer, int tokens, const Buffer<Result>& slots, int stride) {
  const model::Dimensions& dims = context_.dims;
  const int hidden = dims.hidden_size, active = dims.experts_per_token + 1;
  // Of all experts together.
  const bool past_cache = are_past_cache<Result>(tokens * active, stride);
  context_.pool.parallel_for(static_cast<std::int64_t>(tasks_.size()), 1,
                             [&](std::int64_t begin, std::int64_t end, int thread) {
                               ThreadScratch& scratch = threads_[static_cast<std::size_t>(thread)];
                               for (std::int64_t i = begin; i < end; ++i) {
                                 const ExpertTask& task = tasks_[static_cast<std::size_t>(i)];
                                 const PackedMatrix& down = layer.down[static_cast<std::size_t>(task.expert)];
                                 run_gate_up(layer, task, scratch);
                                 multiply_blocks(down, 0, down.blocks(), scratch.rows.data(), task.count,
                                                 slots.row(task.first, stride), stride, past_cache);
                               }
                             });
  // Summing per token in the order of its routes keeps the result independent of the threads.
  context_.pool.parallel_for(tokens, 8, [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
    std::vector<const Result*> outputs(static_cast<std::size_t>(active));
    std::vector<float> weights(outputs.size());
    for (int t = static_cast<int>(begin); t < static_cast<int>(end); ++t) {
      const int* of_token = slot_of_.data() + static_cast<std::ptrdiff_t>(t) * active;
      const Route* routes = routes_.data() + static_cast<std::ptrdiff_t>(t) * dims.experts_per_token;
      for (int i = 0; i < active; ++i) outputs[static_cast<std::size_t>(i)] = slots.row(of_token[i], stride);
      for (int i = 0; i + 1 < active; ++i) weights[static_cast<std::size_t>(i)] = routes[i].weight;
      weights.back() = 1 / (1 + std::exp(-router_.row(t, sizes_.router_rows)[layer.shared_gate_row]));
      add_weighted(context_.kernels, outputs.data(), weights.data(), active, hidden, hidden_.row(t, hidden));
    }
  });
}

// Selects experts and lays out the slots: one per (token, expert), sorted by expert; the shared expert, which
// has every token, comes first because it is the longest.
void Prefiller::route_tokens(int layer_index, int tokens) {
  const model::Dimensions& dims = context_.dims;
  const int selected = dims.experts_per_token, active = selected + 1;
  context_.pool.parallel_for(tokens, 8, [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
    for (int t = static_cast<int>(begin); t < static_cast<int>(end); ++t) {
      select_experts(router_.row(t, sizes_.router_rows), dims.experts, selected, layer_index,
                     routes_.data() + static_cast<std::ptrdiff_t>(t) * selected);
    }
  });

  next_slot_.assign(static_cast<std::size_t>(dims.experts) + 1, 0);
  for (int i = 0; i < tokens * selected; ++i)
    ++next_slot_[static_cast<std::size_t>(routes_[static_cast<std::size_t>(i)].expert)];
  tasks_.clear();
  const auto add_tasks = [&](int expert, int first, int count) {
    const int most = context_.kernels.expert_tokens;
    for (int done = 0; done < count; done += most) {
      tasks_.push_back({expert, first + done, std::min(most, count - done)});
    }
  };
  add_tasks(dims.experts, 0, tokens);
  int first = tokens;
  for (int e = 0; e < dims.experts; ++e) {
    const int count = next_slot_[static_cast<std::size_t>(e)];
    next_slot_[static_cast<std::size_t>(e)] = first;
    add_tasks(e, first, count);
    first += count;
  }
  for (int t = 0; t < tokens; ++t) {
    int* slots = slot_of_.data() + static_cast<std::ptrdiff_t>(t) * active;
    for (int i = 0; i < selected; ++i) {
      const Route& route = routes_[static_cast<std::size_t>(t * selected + i)];
      slots[i] = next_slot_[static_cast<std::size_t>(route.expert)]++;
      token_of_slot_[static_cast<std::size_t>(slots[i])] = t;
    }
    slots[selected] = t;
    token_of_slot_[static_cast<std::size_t>(t)] = t;
  }
}

void Prefiller::run_gate_up(const LayerWeights& layer, const ExpertTask& task, ThreadScratch& scratch) {
  const model::Dimensions& dims = context_.dims;
  const Kernels& kernels = context_.kernels;
  const PackedMatrix& gate_up = layer.gate_up[static_cast<std::size_t>(task.expert)];
  const int size = task.expert == dims.experts ? dims.shared_expert_size : dims.expert_size;
  for (int i = 0; i < task.count; ++i) {
    scratch.gathered[static_cast<std::size_t>(i)] =
        input_rows_[token_of_slot_[static_cast<std::size_t>(task.first + i)]];
  }
  const auto multiply_all = [&](auto* out, int stride) {
    multiply_blocks(gate_up, 0, gate_up.blocks(), scratch.gathered.data(), task.count, out, stride, false);
  };
  const int stride = stride_of(sizes_.expert_rows), half_stride = half_stride_of(sizes_.expert_rows);
  if (in_halves_) {
    multiply_all(scratch.gate_up_halves.data(), half_stride);
    float* inner = scratch.gate_up.data();
    for (int i = 0; i < task.count; ++i) {
      const std::uint16_t* gate = scratch.gate_up_halves.row(i, half_stride);
      kernels.silu_multiply_halves(gate, gate + size, size, inner);
      kernels.quantize(inner, size, scratch.rows[i]);
    }
    return;
  }
  multiply_all(scratch.gate_up.data(), stride);
  for (int i = 0; i < task.count; ++i) {
    float* gate = scratch.gate_up.row(i, stride);
    kernels.silu_multiply(gate, gate + size, size, gate);
    kernels.quantize(gate, size, scratch.rows[i]);
  }
}

}  // namespace lily::cpu
