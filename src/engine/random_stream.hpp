// The random numbers of one request: the same seed gives the same numbers on every machine.
#pragma once

#include <cstdint>

namespace lily::engine {

// Number n of the stream is a hash of (seed, n), so there is no state to warm up and any seed is as good as
// any other, 0 included. The hash is the 64-bit finalizer of SplitMix64 (Steele, Lea, Flood 2014); seeds pass
// through it first, because streams of raw seeds would be shifted copies of each other.
class RandomStream {
 public:
  explicit RandomStream(std::uint64_t seed) noexcept : key_(mix(seed + kIncrement)) {}

  // What number n, from 1, is the hash of, together with n: for those who draw from the stream elsewhere.
  std::uint64_t key() const noexcept { return key_; }

  // Uniform in [0, 1): the upper 53 bits of the hash times 2^-53.
  double next() noexcept {
    ++drawn_;
    return static_cast<double>(mix(key_ + drawn_ * kIncrement) >> 11) * 0x1p-53;
  }

 private:
  static constexpr std::uint64_t kIncrement = 0x9e3779b97f4a7c15U;  // 2^64 / golden ratio, odd

  static constexpr std::uint64_t mix(std::uint64_t value) noexcept {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
    return value ^ (value >> 31);
  }

  std::uint64_t key_;
  std::uint64_t drawn_ = 0;
};

}  // namespace lily::engine
