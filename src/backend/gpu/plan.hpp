// A recorded list of dispatches, with what each reads and writes; dependency levels come out of it.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <span>
#include <vector>

#include "backend/gpu/dispatch.hpp"

namespace lily::gpu {

// A range of device memory.
struct Region {
  const void* begin = nullptr;
  std::size_t bytes = 0;
};
template <class T>
Region region(T* address, std::size_t count) {
  return {address, count * sizeof(T)};
}

// Recorded once and run any number of times. Weights, which nobody writes, need no declaration. Machines that
// overlap dispatches order them by these declarations alone, so a missing one is a fault that the emulator
// shows: its shuffled order runs the dispatches of a level in random order.
class Plan {
 public:
  template <class Arguments>
  void add(const Arguments& arguments, Grid grid, std::initializer_list<Region> reads,
           std::initializer_list<Region> writes) {
    add(make_dispatch(arguments, grid), reads, writes);
  }

  void add(const Dispatch& dispatch, std::span<const Region> reads, std::span<const Region> writes);

  std::span<const Dispatch> dispatches() const { return dispatches_; }

  // Dispatch i belongs to level levels()[i]: one more than the highest of the earlier dispatches that write
  // what it reads or writes, or that read what it writes. Dispatches of one level may run in any order, or
  // together.
  std::span<const int> levels() const { return levels_; }
  int level_count() const { return level_count_; }

 private:
  struct Access {
    Region region;
    int level = 0;
  };

  std::vector<Dispatch> dispatches_;
  std::vector<int> levels_;
  std::vector<Access> reads_, writes_;
  int level_count_ = 0;
};

}  // namespace lily::gpu
