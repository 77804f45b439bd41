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

// Appends to plans the parts of a pass of `rows` tokens of a sequence, whose ids lie in its buffers.
class Recorder {
 public:
  Recorder(const Model& model, const GpuSequence& sequence, uint rows)
      : model_(model), sequence_(sequence), buffers_(sequence.buffers()), rows_(rows) {}

  void embedding(Plan& plan) const;
  void layer(Plan& plan, int index) const;
  // Logits of the rows from `first` on, as the first rows of the logits buffer.
  void head(Plan& plan, uint first) const;

 private:
  void normed_projection(Plan& plan, const DeviceMatrix& matrix, const float* factor,
                         const DeviceMemory& y) const;
  void delta_net(Plan& plan, const LayerWeights& layer, int delta_layer) const;
  void attention(Plan& plan, const LayerWeights& layer, int attention_layer) const;
  void experts(Plan& plan, const LayerWeights& layer) const;
  // The part of a buffer that this pass uses, `width` floats a row.
  Region used(const DeviceMemory& memory, uint width) const {
    return region(memory.as<float>(), std::size_t{rows_} * width);
  }

  const Model& model_;
  const GpuSequence& sequence_;
  const PassBuffers& buffers_;
  uint rows_;
};

}  // namespace lily::gpu
