// What a backend does: it advances sequences. `prefill` many tokens, `decode` one after another.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "backend/token_stream.hpp"
#include "base/machine_memory.hpp"
#include "lily/text.hpp"
#include "model/dimensions.hpp"

namespace lily::backend {

// All state of one conversation: KV cache, DeltaNet state, convolution window, position. Owned by the caller,
// advanced by the backend that made it, never trimmed. After an exception from prefill or decode it is
// poisoned: only reset() and destruction are allowed.
class Sequence {
 public:
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;
  virtual ~Sequence() = default;

  int position() const noexcept { return position_; }  // tokens so far
  int capacity() const noexcept { return capacity_; }  // tokens it can hold

  // As new: position 0, no state; the memory is kept. Serving allocates nothing that grows with a prompt, so
  // the engine makes one sequence when it opens and resets it for every request.
  virtual void reset() noexcept = 0;

 protected:
  explicit Sequence(int capacity) : capacity_(capacity) {}
  int position_ = 0;

 private:
  int capacity_;
};

// Logits of one position: [vocabulary rows] fp32, valid during the call.
using LogitsSink = std::function<void(int position, std::span<const float> logits)>;

struct PrefillControl {
  std::stop_token stop{};                               // checked at every layer of every chunk
  std::function<void(int done, int total)> progress{};  // in tokens; may be called for parts of a chunk
  LogitsSink every_position{};                          // when set, logits of all positions (evaluation)
};

// Bytes one decode step must move at a given position, by the model's formulas and the stored formats.
struct DecodeTraffic {
  double weight_bytes = 0;
  double state_bytes = 0;  // DeltaNet state read and written, window
  double kv_bytes = 0;     // at the asked position
  double total() const { return weight_bytes + state_bytes + kv_bytes; }
};

// The machine's limits with the instruction set in use; measured, takes about a second.
struct MachineLimits {
  double stream_gb_per_s = 0;
  double int8_tera_ops = 0;
};

// One sequence is advanced by one thread at a time; different sequences may take turns.
class Backend {
 public:
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;
  virtual ~Backend() = default;

  virtual const model::Dimensions& dimensions() const noexcept = 0;
  virtual std::string description() const = 0;  // "cpu (avx512-vnni, 2 threads)"

  // A fresh sequence with room for `capacity` tokens. Throws Error(out_of_memory).
  virtual std::unique_ptr<Sequence> new_sequence(int capacity) = 0;
  // State of one sequence and the scratch that grows with its capacity.
  virtual std::uint64_t sequence_bytes(int capacity) const = 0;
  virtual std::uint64_t weight_bytes() const = 0;  // resident
  // What passes over tokens work in at most, whatever the context.
  virtual std::uint64_t scratch_bytes() const { return 0; }
  // Bytes that all of these may take together.
  virtual std::uint64_t memory() const { return machine_memory(); }

  // Appends `tokens` (not empty) and writes the logits of the last one to `logits` [vocabulary].
  // Throws Error: too_long (capacity), bad_input (id outside the vocabulary; before any work),
  // cancelled (stop requested).
  virtual void prefill(Sequence& sequence, std::span<const TokenId> tokens, std::span<float> logits,
                       const PrefillControl& control) = 0;

  // Appends one token and writes its logits. Throws as prefill does.
  virtual void decode(Sequence& sequence, TokenId token, std::span<float> logits) = 0;

  // Up to `limit` tokens by the backend's own choice, from the logits of the sequence's last prefill (without
  // every_position) or decode on. nullptr: the choice is left to the caller.
  virtual std::unique_ptr<TokenStream> stream(Sequence& /*sequence*/, const SamplingRules& /*rules*/,
                                              int /*limit*/) {
    return nullptr;
  }

  virtual DecodeTraffic decode_traffic(int position) const = 0;
  virtual MachineLimits measure_limits() = 0;

 protected:
  Backend() = default;
};

}  // namespace lily::backend
