// 512 MiB in huge pages, far beyond every cache, that the benchmarks of memory-bound kernels cycle through.
// One at a time: preparing it for another kind of data overwrites it.
#pragma once

#include "backend/cpu/kernels.hpp"
#include "base/huge_buffer.hpp"

namespace lily::benchmarks {

class WorkingSet {
 public:
  WorkingSet();

  const std::byte* data() const { return memory_.data(); }
  std::size_t size() const { return memory_.size(); }

  // Matrices of random codes in 1 or 2 planes side by side; `index` wraps around.
  void fill_matrices(int planes);
  cpu::PackedMatrix matrix(int rows, int columns, int planes, int index) const;

  // Keys and values of caches of `positions` (a multiple of 16) of one KV head; `index` wraps around.
  void fill_caches();
  cpu::KvView cache(int positions, int head_dim, bool int8, int index) const;

  // Finite floats; `index` counts runs of `count` and wraps around.
  void fill_floats();
  float* floats(std::size_t count, int index) const;

 private:
  std::byte* slot(std::size_t bytes, int index) const;

  enum class Content { none, one_plane, two_planes, cache, fp32 };
  bool becomes(Content content);

  HugeBuffer memory_;
  Content content_ = Content::none;
};

WorkingSet& working_set();

}  // namespace lily::benchmarks
