// Filling the working set with values that make kernels as slow as real ones do: no denormals, no NaN.
#include "working_set.hpp"

#include <algorithm>
#include <cstring>

#include "base/bf16.hpp"

namespace lily::benchmarks {

namespace {

constexpr std::size_t kBytes = std::size_t{512} << 20;

std::uint64_t next_random(std::uint64_t& state) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

template <class T, class Value>
void fill(const HugeBuffer& memory, Value value) {
  T* values = memory.as<T>();
  for (std::size_t i = 0; i < memory.size() / sizeof(T); ++i) values[i] = value(i);
}

}  // namespace

WorkingSet::WorkingSet() : memory_(kBytes, "the working set of the benchmarks") {
  std::memset(memory_.data(), 1, memory_.size());
}

WorkingSet& working_set() {
  static WorkingSet set;
  return set;
}

bool WorkingSet::becomes(Content content) {
  const bool changes = content_ != content;
  content_ = content;
  return changes;
}

std::byte* WorkingSet::slot(std::size_t bytes, int index) const {
  const std::size_t count = std::max<std::size_t>(1, memory_.size() / bytes);
  return memory_.data() + static_cast<std::size_t>(index) % count * bytes;
}

void WorkingSet::fill_matrices(int planes) {
  if (!becomes(planes == 1 ? Content::one_plane : Content::two_planes)) return;
  std::uint64_t random = 20261129;
  fill<std::uint64_t>(memory_, [&](std::size_t) { return next_random(random); });
  const std::size_t group = static_cast<std::size_t>(planes) * 512 + 64;
  for (std::size_t at = 0; at + group <= memory_.size(); at += group) {
    auto* affine = reinterpret_cast<std::uint16_t*>(memory_.data() + at + group - 64);
    std::fill_n(affine, cpu::kLanes, float_to_bf16(0.01F));
    std::fill_n(affine + cpu::kLanes, cpu::kLanes, float_to_bf16(-0.075F));
  }
}

cpu::PackedMatrix WorkingSet::matrix(int rows, int columns, int planes, int index) const {
  cpu::PackedMatrix matrix{nullptr, rows, columns / cpu::kGroup, planes};
  matrix.data = slot(matrix.bytes(), index);
  return matrix;
}

void WorkingSet::fill_caches() {
  if (!becomes(Content::cache)) return;
  // A usable scale wherever one lies; as codes its bytes are as good as any.
  fill<float>(memory_, [](std::size_t) { return 1e-5F; });
}

cpu::KvView WorkingSet::cache(int positions, int head_dim, bool int8, int index) const {
  const auto values = static_cast<std::size_t>(positions) * static_cast<std::size_t>(head_dim);
  const std::size_t scales = values / cpu::kGroup * sizeof(float);
  const std::size_t codes = values * (int8 ? sizeof(std::int8_t) : sizeof(std::int16_t));
  std::byte* keys = slot(2 * (codes + scales), index);
  std::byte* other = keys + codes + scales;
  return {int8, keys, other, reinterpret_cast<float*>(keys + codes), reinterpret_cast<float*>(other + codes)};
}

void WorkingSet::fill_floats() {
  if (!becomes(Content::fp32)) return;
  std::uint64_t random = 20261129;
  fill<float>(memory_, [&](std::size_t) {
    return static_cast<float>(static_cast<std::int32_t>(next_random(random) & 0xffff) - 32768) / 32768.0F;
  });
}

float* WorkingSet::floats(std::size_t count, int index) const {
  return reinterpret_cast<float*>(slot(count * sizeof(float), index));
}

}  // namespace lily::benchmarks
