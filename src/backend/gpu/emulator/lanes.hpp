// What a kernel meets of the emulator: its 32 lanes exchange values, its threads wait at barriers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "backend/gpu/dialect/types.h"

namespace lily::gpu::emulator {

constexpr uint kLanes = 32;
constexpr std::size_t kExchangeBytes = 16;  // at most this much per lane and meeting

// Where in a kernel's source a meeting is.
struct Place {
  const char* file;
  int line;
};

// Exchange memory of one simdgroup. Two slots in turn: a lane reaches meeting n + 2 only after all left n.
struct Simdgroup {
  alignas(16) std::array<std::array<std::array<std::byte, kExchangeBytes>, kLanes>, 2> slots;
  alignas(16) std::array<std::array<std::byte, kExchangeBytes>, 2> results;
  std::array<bool, 2> reduced;
  // What one lane worked out for all: two operands of a matrix product and the product.
  std::array<std::array<float, 16>, 16> left;
  std::array<std::array<float, 16>, 32> right;
  std::array<std::array<float, 32>, 16> product;
};

struct Lane {
  Simdgroup* simdgroup = nullptr;
  uint id = 0;     // 0 to 31
  uint phase = 0;  // which of the two slots
};

// constinit: no wrapper function, which costs time and which the sanitizers misread.
extern constinit thread_local Lane* current_lane;
inline uint lane() { return current_lane->id; }

void meet(Place place);           // waits for the other 31 lanes
void group_barrier(Place place);  // waits for all threads of the threadgroup
// Stops the running kernel with Error(internal) that names it, its thread and `message`.
[[noreturn]] void fault(const char* message);

// The values of all lanes at one meeting.
template <class T>
class Lanes {
 public:
  explicit Lanes(const std::array<std::array<std::byte, kExchangeBytes>, kLanes>& slot) : slot_(&slot) {}
  T operator[](uint lane) const {
    T value;
    std::memcpy(&value, (*slot_)[lane % kLanes].data(), sizeof value);
    return value;
  }

 private:
  const std::array<std::array<std::byte, kExchangeBytes>, kLanes>* slot_;
};

template <class T>
Lanes<T> exchange(T value, Place place) {
  static_assert(sizeof(T) <= kExchangeBytes, "a lane exchanges at most 16 bytes");
  Lane& me = *current_lane;
  me.phase ^= 1u;
  auto& slot = me.simdgroup->slots[me.phase];
  std::memcpy(slot[me.id].data(), &value, sizeof value);
  meet(place);
  return Lanes<T>(slot);
}

// As exchange, but the first lane that goes on computes one result for all.
template <class T, class Function>
T reduce(T value, Place place, Function function) {
  const Lanes<T> lanes = exchange(value, place);
  Simdgroup& simdgroup = *current_lane->simdgroup;
  const uint phase = current_lane->phase;
  T result;
  if (!simdgroup.reduced[phase]) {
    result = function(lanes);
    std::memcpy(simdgroup.results[phase].data(), &result, sizeof result);
    simdgroup.reduced[phase] = true;  // cleared when the lanes meet
  } else {
    std::memcpy(&result, simdgroup.results[phase].data(), sizeof result);
  }
  return result;
}

// As reduce, for what does not fit a lane's exchange: the first lane that goes on works on the simdgroup's
// matrices for all, and what it leaves there stays until the lanes have met again.
template <class T, class Function>
const Simdgroup& work_for_all(T value, Place place, Function work) {
  const Lanes<T> lanes = exchange(value, place);
  Simdgroup& simdgroup = *current_lane->simdgroup;
  const uint phase = current_lane->phase;
  if (!simdgroup.reduced[phase]) {
    work(lanes, simdgroup);
    simdgroup.reduced[phase] = true;  // cleared when the lanes meet
  }
  return simdgroup;
}

// Copies of weight blocks into tile memory; they arrive when the first thread finds them ready, or, in
// backward order, at once: a kernel may rely on neither.
void prefetch_begin(TileBarrier& barrier);
void prefetch(TileBarrier& barrier, uint slot, const uchar* from, uint blocks);
void prefetch_end(TileBarrier& barrier);
void prefetch_cache(const uchar* from, uint bytes);
void tile_ready(TileBarrier& barrier);
const uchar* tile_block(TileBarrier& barrier, uint slot, const uchar* from);

inline void check_aligned(const void* pointer, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(pointer) % bytes != 0) fault("misaligned access");
}

template <class T>
T load(const void* pointer) {
  check_aligned(pointer, sizeof(T));
  T value;
  std::memcpy(&value, pointer, sizeof value);
  return value;
}

template <class T>
void store(void* pointer, T value) {
  check_aligned(pointer, sizeof(T));
  std::memcpy(pointer, &value, sizeof value);
}

}  // namespace lily::gpu::emulator
