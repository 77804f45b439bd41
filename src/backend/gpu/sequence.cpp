// One conversation on a device.
#include "backend/gpu/sequence.hpp"

#include <algorithm>
#include <array>

#include "backend/gpu/select.hpp"
#include "lily/error.hpp"

namespace lily::gpu {
namespace {

constexpr uint kLogitRows = 32;  // 32 MB for the full vocabulary

std::size_t size_of(int value) { return static_cast<std::size_t>(value); }

std::size_t padded(int rows) {
  constexpr std::size_t kTile = WeightBlock::rows;
  return (size_of(rows) + kTile - 1) / kTile * kTile;
}

std::size_t state_size(const model::Dimensions& dims) {
  return size_of(dims.value_rows()) * size_of(dims.key_dim);
}
std::size_t window_size(const model::Dimensions& dims) {
  return DeltaRing::window_rows * size_of(dims.conv_channels());
}
std::size_t kv_values(const model::Dimensions& dims, int capacity) {
  return size_of(dims.kv_rows()) * size_of(capacity);
}
std::size_t kv_bytes(const model::Dimensions& dims, const SequenceShape& shape) {
  return kv_values(dims, shape.capacity) * (shape.kv == KvFormat::int8 ? 1 : sizeof(half));
}
std::size_t kv_scales(const model::Dimensions& dims, const SequenceShape& shape) {
  return shape.kv == KvFormat::int8 ? kv_values(dims, shape.capacity) / CacheRows::group : 0;
}

// Every pass of a prompt that fills the capacity has a header.
std::size_t prompt_words(const SequenceShape& shape) {
  const std::size_t passes = (size_of(shape.capacity) + shape.rows - 1) / shape.rows;
  return size_of(shape.capacity) + passes * PassInputs::kHeader;
}

std::size_t mixer_rows(const model::Dimensions& dims) {
  return std::max(padded(dims.conv_channels()) + padded(dims.value_rows()) + 2 * padded(dims.value_heads),
                  padded(dims.query_gate_rows()) + 2 * padded(dims.kv_rows()));
}

}  // namespace

uint SequenceShape::logit_rows() const { return std::min(rows, kLogitRows); }

StateBuffers::StateBuffers(Allocator& memory, const model::Dimensions& dims, const SequenceShape& shape)
    : prompt(memory.take<uint>(prompt_words(shape), "a prompt's tokens")),
      step(memory.take<uint>(PassInputs::kHeader + 1, "a step's inputs")),
      states(memory.take<float>(size_of(dims.delta_net_layers()) * kStateRing * state_size(dims),
                                "DeltaNet states")),
      windows(
          memory.take<float>(size_of(dims.delta_net_layers()) * window_size(dims), "convolution windows")),
      keys(memory.take<std::byte>(size_of(dims.attention_layers()) * kv_bytes(dims, shape), "the KV cache")),
      values(
          memory.take<std::byte>(size_of(dims.attention_layers()) * kv_bytes(dims, shape), "the KV cache")),
      key_scales(
          memory.take<float>(size_of(dims.attention_layers()) * kv_scales(dims, shape), "the KV cache")),
      value_scales(
          memory.take<float>(size_of(dims.attention_layers()) * kv_scales(dims, shape), "the KV cache")) {}

PassBuffers::PassBuffers(Allocator& memory, const model::Dimensions& dims, const SequenceShape& shape) {
  const char* what = "buffers of a pass";
  const std::size_t rows = shape.rows, heads = size_of(dims.attention_heads);
  const std::size_t splits = attention_splits(static_cast<uint>(shape.capacity),
                                              static_cast<uint>(dims.kv_heads), shape.multiprocessors);
  x = memory.take<float>(rows * size_of(dims.hidden_size), what);
  projection = memory.take<float>(rows * mixer_rows(dims), what);
  inner = memory.take<float>(rows * size_of(std::max(dims.attention_rows(), dims.value_rows())), what);
  queries = memory.take<float>(rows * size_of(dims.attention_rows()), what);
  router = memory.take<float>(rows * (padded(dims.experts) + padded(1)), what);
  activations = memory.take<float>(
      rows * size_of(dims.experts_per_token * dims.expert_size + dims.shared_expert_size), what);
  logits = memory.take<float>(shape.logit_rows() * size_of(dims.vocabulary), what);
  const std::size_t shares = std::min<std::size_t>(rows, kFewTokens) * splits;
  partial = memory.take<float>(shares * size_of(dims.attention_rows()), what);
  maximum = memory.take<float>(shares * heads, what);
  sums = memory.take<float>(shares * heads, what);
}

PrefillBuffers::PrefillBuffers(Allocator& memory, const model::Dimensions& dims, const SequenceShape& shape) {
  if (shape.rows == 1) return;
  const char* what = "buffers of prefill";
  const std::size_t rows = shape.rows, hidden = size_of(dims.hidden_size),
                    value_heads = size_of(dims.value_heads),
                    assignments = rows * size_of(dims.experts_per_token),
                    shared = rows * size_of(dims.shared_expert_size);
  halves = memory.take<half>(
      rows * size_of(std::max({dims.hidden_size, dims.attention_rows(), dims.value_rows()})), what);
  scales = memory.take<float>(rows, what);
  if (shape.kv == KvFormat::int8) {
    keys = memory.take<half>(kv_values(dims, shape.capacity), what);
    values = memory.take<half>(kv_values(dims, shape.capacity), what);
  }

  q = memory.take<float>(rows * size_of(dims.key_rows()), what);
  k = memory.take<float>(rows * size_of(dims.key_rows()), what);
  v = memory.take<float>(rows * size_of(dims.value_rows()), what);
  beta = memory.take<float>(rows * value_heads, what);
  log_decay = memory.take<float>(rows * value_heads, what);
  constexpr std::size_t kChunk = DeltaChunks::chunk;
  const std::size_t chunk_rows = value_heads * ((rows + kChunk - 1) / kChunk) * kChunk;
  decay = memory.take<float>(chunk_rows, what);
  u = memory.take<float>(chunk_rows * DeltaChunks::dim, what);
  w = memory.take<half>(chunk_rows * DeltaChunks::dim, what);
  p = memory.take<half>(chunk_rows * kChunk, what);

  expert = memory.take<uint>(assignments, what);
  count = memory.take<uint>(CountExperts::max_experts, what);
  offset = memory.take<uint>(CountExperts::max_experts + 1, what);
  order = memory.take<uint>(assignments, what);
  tile_expert = memory.take<uint>(expert_tiles(static_cast<uint>(assignments)), what);
  tile_first = memory.take<uint>(expert_tiles(static_cast<uint>(assignments)), what);
  weight = memory.take<float>(assignments, what);
  expert_halves = memory.take<half>(assignments * size_of(dims.expert_size), what);
  expert_scales = memory.take<float>(assignments, what);
  expert_y = memory.take<half>(assignments * hidden, what);
  expert_y_scales = memory.take<float>(assignments, what);
  shared_activations = memory.take<float>(shared, what);
  shared_halves = memory.take<half>(shared, what);
  shared_scales = memory.take<float>(rows, what);
  shared_y = memory.take<float>(rows * hidden, what);
}

SampleBuffers::SampleBuffers(Allocator& memory, const model::Dimensions& dims, const SequenceShape& shape) {
  const char* what = "buffers of sampling";
  const std::size_t rows = size_of(dims.vocabulary);
  slices = sample_slices(static_cast<uint>(rows), shape.multiprocessors);
  slice = (static_cast<uint>(rows) + slices - 1) / slices;
  const std::size_t parts = std::max(
      slices,
      head_groups(static_cast<uint>(padded(dims.vocabulary)) / WeightBlock::rows, shape.multiprocessors));
  history = memory.take<uint>(rows, what);
  bias = memory.take<float>(rows, what);
  settings = memory.take<SampleSettings>(1, what);
  drawn = memory.take<uint>(1, what);
  best_logit = memory.take<float>(parts, what);
  best_id = memory.take<uint>(parts, what);
  histogram = memory.take<uint>(std::size_t{SampleShape::buckets} * SampleShape::words, what);
  slice_weight = memory.take<ulong>(slices, what);
  list = memory.take<uint>(std::size_t{slices} * slice, what);
  count = memory.take<uint>(slices, what);
  ids = memory.take_shared<uint>(kIdRing, what);
}

GpuSequence::GpuSequence(Device& device, const model::Dimensions& dims, const SequenceShape& shape)
    : GpuSequence(device, dims, shape, Allocator(&device)) {}

GpuSequence::GpuSequence(Device& device, const model::Dimensions& dims, const SequenceShape& shape,
                         Allocator memory)
    : Sequence(shape.capacity),
      device_(device),
      dims_(dims),
      shape_(shape),
      state_(memory, dims, shape),
      pass_(memory, dims, shape),
      prefill_(memory, dims, shape),
      sample_(memory, dims, shape) {
  prompt_words_.reserve(prompt_words(shape));
}

// Steps that ran ahead of a stream, or a prompt that was stopped, may be under way; freeing memory need not
// wait for them, least of all the host's.
GpuSequence::~GpuSequence() {
  try {
    device_.finish();
  } catch (const Error&) {
    // The device's fault ends its work as well, and is told to whoever asks it next.
  }
}

SequenceMemory GpuSequence::memory(const model::Dimensions& dims, const SequenceShape& shape) {
  Allocator others(nullptr), activations(nullptr);
  const StateBuffers state(others, dims, shape);
  const SampleBuffers sample(others, dims, shape);
  const PassBuffers pass(activations, dims, shape);
  const PrefillBuffers prefill(activations, dims, shape);
  return {others.bytes() + activations.bytes(), activations.bytes()};
}

void GpuSequence::reset() noexcept {
  position_ = 0;
  step_ = 0;
  has_logits_ = false;
}

void GpuSequence::clear_state() {
  // Window rows and keys beyond the position are never read. The experts' counts are zero between passes,
  // unless one was cut short.
  if (state_.states.bytes() > 0) device_.clear(state_.states.data(), state_.states.bytes());
  if (prefill_.count.bytes() > 0) device_.clear(prefill_.count.data(), prefill_.count.bytes());
}

void GpuSequence::prepare_prompt(std::span<const TokenId> tokens) {
  if (position_ == 0) clear_state();
  prompt_words_.clear();
  uint step = step_;
  for (std::size_t first = 0; first < tokens.size(); first += shape_.rows) {
    const auto pass = tokens.subspan(first, std::min<std::size_t>(shape_.rows, tokens.size() - first));
    prompt_words_.push_back(static_cast<uint>(position_) + static_cast<uint>(first));
    prompt_words_.push_back(step++);
    for (const TokenId token : pass) prompt_words_.push_back(static_cast<uint>(token));
  }
  device_.write(state_.prompt.data(), std::as_bytes(std::span(prompt_words_)));
}

PassInputs GpuSequence::prompt_pass(int first, int count) const {
  const std::size_t pass = size_of(first) / shape_.rows;
  return {state_.prompt.at(size_of(first) + pass * PassInputs::kHeader), static_cast<uint>(count)};
}

void GpuSequence::prepare_step(TokenId token, int back) {
  if (position_ == 0) clear_state();
  const std::array<uint, 3> words{static_cast<uint>(position_ - back), step_ - static_cast<uint>(back),
                                  static_cast<uint>(token)};
  device_.write(state_.step.data(), std::as_bytes(std::span(words)));
}

void GpuSequence::prepare_sampling(const backend::SamplingRules& rules) {
  const SampleSettings settings{rules.random_key,
                                rules.temperature,
                                rules.top_p,
                                rules.min_p,
                                rules.repetition_penalty,
                                rules.presence_penalty,
                                rules.frequency_penalty,
                                static_cast<uint>(rules.top_k),
                                rules.bias.empty() ? 0U : 1U};
  device_.write(sample_.settings.data(), std::as_bytes(std::span(&settings, 1)));
  const uint drawn = 0;
  device_.write(sample_.drawn.data(), std::as_bytes(std::span(&drawn, 1)));

  std::vector<uint> history(size_of(dims_.vocabulary), TokenHistory::banned);
  for (const auto& [begin, end] : rules.allowed)
    std::fill(history.begin() + begin, history.begin() + end, 0U);
  for (const TokenId id : rules.exempt) history[size_of(id)] |= TokenHistory::control;
  for (const TokenId id : rules.prompt) {
    uint& token = history[size_of(id)];
    if ((token & TokenHistory::control) == 0) token |= TokenHistory::repeated;
  }
  device_.write(sample_.history.data(), std::as_bytes(std::span(history)));

  if (rules.bias.empty()) return;
  std::vector<float> bias(size_of(dims_.vocabulary));
  for (const auto& [id, value] : rules.bias) bias[size_of(id)] = value;
  device_.write(sample_.bias.data(), std::as_bytes(std::span(bias)));
}

Region GpuSequence::states(int layer) const {
  const std::size_t count = kStateRing * state_size(dims_);
  return state_.states.range(size_of(layer) * count, count);
}

Region GpuSequence::window(int layer) const {
  return state_.windows.range(size_of(layer) * window_size(dims_), window_size(dims_));
}

KvRegions GpuSequence::kv(int layer) const {
  const std::size_t bytes = kv_bytes(dims_, shape_), scales = kv_scales(dims_, shape_),
                    index = size_of(layer);
  return {state_.keys.range(index * bytes, bytes), state_.values.range(index * bytes, bytes),
          state_.key_scales.range(index * scales, scales), state_.value_scales.range(index * scales, scales)};
}

}  // namespace lily::gpu
