// Records a pass of some tokens through the model: which kernels, on what, in which order.
#pragma once

#include "backend/gpu/plan.hpp"
#include "backend/gpu/sequence.hpp"
#include "backend/gpu/weights.hpp"
#include "model/dimensions.hpp"

namespace lily::gpu {

// What a pass works with; borrowed.
struct Model {
  const model::Dimensions& dims;
  const Weights& weights;
  uint multiprocessors;
};

// What both ways through the model share.
class Recorder {
 public:
  Recorder(const Model& model, const GpuSequence& sequence, const PassInputs& inputs)
      : model_(model),
        dims_(model.dims),
        sequence_(sequence),
        pass_(sequence.pass()),
        inputs_(inputs),
        rows_(inputs.count()) {}

  void embedding(Plan& plan) const;
  // Logits of rows [first, first + count), as the first rows of the logits buffer.
  void head(Plan& plan, uint first, uint count) const;

 protected:
  const LayerWeights& layer_weights(int index) const {
    return model_.weights.layers[static_cast<std::size_t>(index)];
  }
  // How many layers of its kind come before a layer.
  int index_in_kind(int index) const;
  void attention_prepare(Plan& plan, const LayerWeights& layer, const KvRegions& kv) const;
  // Attention of each token on its own, split over the positions, times the gates: decode, and few tokens.
  void split_attention(Plan& plan, const LayerWeights& layer, const KvRegions& kv) const;
  // Router and experts of each token on its own: decode, few tokens, and weights that the sorted path does
  // not read. `next`, or null, is what reads weights after them.
  void experts_by_token(Plan& plan, const LayerWeights& layer, const DeviceMatrix* next) const;

  float eps() const { return static_cast<float>(dims_.rms_norm_eps); }
  // The parts of the pass's buffers that its tokens use.
  Region x() const { return pass_.x.first(rows_ * size(dims_.hidden_size)); }
  Region projection(const DeviceMatrix& matrix) const {
    return pass_.projection.first(rows_ * width(matrix));
  }
  Region router(const DeviceMatrix& matrix) const { return pass_.router.first(rows_ * width(matrix)); }
  Region inner(int width) const { return pass_.inner.first(rows_ * size(width)); }
  Region queries() const { return pass_.queries.first(rows_ * size(dims_.attention_rows())); }

  static std::size_t size(int value) { return static_cast<std::size_t>(value); }
  static std::size_t width(const DeviceMatrix& matrix) { return matrix.padded_rows(); }
  static uint number(int value) { return static_cast<uint>(value); }
  static uint divide_up(uint n, uint by) { return (n + by - 1) / by; }
  // Regions are ranges of addresses; kernels want them typed.
  template <class T>
  static T* address(const Region& region) {
    return static_cast<T*>(const_cast<void*>(region.begin));
  }

  const Model& model_;
  const model::Dimensions& dims_;
  const GpuSequence& sequence_;
  const PassBuffers& pass_;
  PassInputs inputs_;
  uint rows_;
};

// One token: matrix-vector products, attention split over the positions.
class DecodeRecorder : public Recorder {
 public:
  DecodeRecorder(const Model& model, const GpuSequence& sequence, const PassInputs& inputs)
      : Recorder(model, sequence, inputs) {}

  // Embedding and all layers.
  void step(Plan& plan) const;
  void layer(Plan& plan, int index) const;

 private:
  void delta_net(Plan& plan, const LayerWeights& layer, int delta_layer) const;
  void attention(Plan& plan, const LayerWeights& layer, int attention_layer) const;
  void normed_projection(Plan& plan, const DeviceMatrix& matrix, const float* factor) const;
};

// The choice of a token, and the step to the next one. Of the plans of GpuSequence the first row of logits is
// meant.
class ChoiceRecorder : public Recorder {
 public:
  ChoiceRecorder(const Model& model, const GpuSequence& sequence)
      : Recorder(model, sequence, sequence.step_inputs()), sample_(sequence.sample()) {}

  // By all rules, from logits that are there.
  void choose(Plan& plan) const;
  // Logits of a step, and the best token by them as they are.
  void head_and_best(Plan& plan) const;

 private:
  // From the best tokens of `slices` parts of the vocabulary.
  void draw(Plan& plan, uint slices) const;
  Region logits() const { return pass_.logits.first(size(dims_.vocabulary)); }

  const SampleBuffers& sample_;
};

// Several tokens: products on matrix tiles, DeltaNet in chunks, tokens sorted by expert.
class PrefillRecorder : public Recorder {
 public:
  PrefillRecorder(const Model& model, const GpuSequence& sequence, const PassInputs& inputs)
      : Recorder(model, sequence, inputs), prefill_(sequence.prefill()) {}

  void layer(Plan& plan, int index) const;

 private:
  void delta_net(Plan& plan, const LayerWeights& layer, int delta_layer) const;
  void delta_rule(Plan& plan, const Region& states) const;
  void attention(Plan& plan, const LayerWeights& layer, int attention_layer) const;
  void tile_attention(Plan& plan, const LayerWeights& layer, const KvRegions& cache) const;
  // A layer's codes as halves, in buffers that the next layer uses again.
  KvRegions cache_of_halves(Plan& plan, const KvRegions& kv) const;
  void experts(Plan& plan, const LayerWeights& layer) const;
  void sorted_experts(Plan& plan, const LayerWeights& layer) const;
  void shared_expert(Plan& plan, const LayerWeights& layer) const;

  void norm_rows(Plan& plan, const float* factor) const;
  // Rows of any buffer as halves.
  void half_rows(Plan& plan, const Region& x, const Buffer<half>& y, const Buffer<float>& scale, uint rows,
                 uint inputs) const;
  // y = W x or y += W x with the rows in `halves`.
  void multiply(Plan& plan, const DeviceMatrix& matrix, const Buffer<half>& halves,
                const Buffer<float>& scale, const Region& y) const;
  void multiply_add(Plan& plan, const DeviceMatrix& matrix) const;

  const PrefillBuffers& prefill_;
};

}  // namespace lily::gpu
