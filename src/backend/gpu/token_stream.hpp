// Tokens of one sequence, chosen on the device: the host starts steps and reads ids.
#pragma once

#include <array>

#include "backend/gpu/device.hpp"
#include "backend/gpu/forward.hpp"

namespace lily::gpu {

// The device is up to kStepsAhead steps ahead of the token that the caller has: its choice is the next step's
// input without the host. What ran ahead when the stream ends is undone by the sequence's own counters, which
// only count tokens given: the ring of DeltaNet states still has the state they name, and keys, values and
// window rows beyond the position are not read.
class GpuTokenStream final : public backend::TokenStream {
 public:
  GpuTokenStream(Device& device, const Model& model, GpuSequence& sequence,
                 const backend::SamplingRules& rules, int limit);

  TokenId next() override;

 private:
  void start();

  Device& device_;
  GpuSequence& sequence_;
  PreparedPlan* first_;  // the first token's, then the others'
  PreparedPlan* step_;
  int limit_;
  int begin_;  // position of the first token
  int started_ = 0, given_ = 0;
  std::array<Device::Mark, kIdRing> marks_{};
};

}  // namespace lily::gpu
