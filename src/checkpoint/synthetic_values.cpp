// One random stream per piece of a tensor, so that pieces can be made in any order by any thread.
#include "checkpoint/synthetic_values.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/bf16.hpp"

namespace lily::checkpoint {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): a bijection that spreads any change of its input over all bits.
std::uint64_t mix(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15U;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

// xoshiro256++ (Blackman, Vigna 2019): 64 random bits in about a nanosecond, faster than any disk.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t stream, std::uint64_t piece) {
    std::uint64_t value = mix(mix(mix(seed) + stream) + piece);
    for (std::uint64_t& word : state_) {
      value = mix(value);
      word = value;
    }
  }

  std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Uniform in [low, high).
  double uniform(double low, double high) {
    return low + (high - low) * (static_cast<double>(next() >> 11) * 0x1p-53);
  }

 private:
  std::array<std::uint64_t, 4> state_{};
};

void fill_words(Random& random, std::span<std::byte> out) {
  std::size_t position = 0;
  for (; position + 8 <= out.size(); position += 8) {
    const std::uint64_t word = random.next();
    std::memcpy(out.data() + position, &word, 8);
  }
  if (position < out.size()) {
    const std::uint64_t word = random.next();
    std::memcpy(out.data() + position, &word, out.size() - position);
  }
}

// 256 pairs of scale and bias; a random byte chooses one per group. Codes are uniform, so a bias of minus the
// middle code times the scale centres the weights. Half of the scales are negative, as in real checkpoints.
std::array<std::uint16_t, 256> group_table(const SyntheticTensor& tensor) {
  const double levels = std::exp2(tensor.bits);
  const double code_deviation = std::sqrt((levels * levels - 1) / 12);
  const double middle = (levels - 1) / 2;
  std::array<std::uint16_t, 256> table{};
  for (std::size_t i = 0; i < table.size(); ++i) {
    const std::size_t step = i / 2;  // each magnitude with both signs
    const double magnitude =
        tensor.deviation / code_deviation * (0.75 + 0.5 * static_cast<double>(step) / 127);
    const std::uint16_t scale = float_to_bf16(static_cast<float>(i % 2 == 0 ? magnitude : -magnitude));
    const auto bias = static_cast<float>(-middle * bf16_to_float(scale));
    table[i] = tensor.kind == SyntheticKind::scales ? scale : float_to_bf16(bias);
  }
  return table;
}

void fill_groups(Random& random, const SyntheticTensor& tensor, std::span<std::byte> out) {
  const std::array<std::uint16_t, 256> table = group_table(tensor);
  std::uint64_t word = 0;
  for (std::size_t i = 0; 2 * i < out.size(); ++i) {
    if (i % 8 == 0) word = random.next();
    const std::uint16_t value = table[(word >> (8 * (i % 8))) & 0xffU];
    std::memcpy(out.data() + 2 * i, &value, 2);
  }
}

double vector_value(Random& random, SyntheticKind kind) {
  switch (kind) {
    case SyntheticKind::convolution:
      return random.uniform(-0.6, 0.6);
    case SyntheticKind::a_log:  // A from 1 to 16
      return std::log(random.uniform(1, 16));
    case SyntheticKind::dt_bias: {  // softplus(dt_bias) from 0.001 to 0.1, evenly in the logarithm
      const double step = std::exp(random.uniform(std::log(0.001), std::log(0.1)));
      return std::log(std::expm1(step));
    }
    default:
      return random.uniform(0.75, 1.25);
  }
}

void fill_vector(Random& random, SyntheticKind kind, std::span<std::byte> out) {
  for (std::size_t i = 0; 2 * i < out.size(); ++i) {
    const std::uint16_t value = float_to_bf16(static_cast<float>(vector_value(random, kind)));
    std::memcpy(out.data() + 2 * i, &value, 2);
  }
}

}  // namespace

void fill_synthetic(const SyntheticTensor& tensor, std::uint64_t seed, std::uint64_t offset,
                    std::span<std::byte> out) {
  Random random(seed, tensor.stream, offset / kPieceBytes);
  switch (tensor.kind) {
    case SyntheticKind::codes:
      fill_words(random, out);
      break;
    case SyntheticKind::scales:
    case SyntheticKind::biases:
      fill_groups(random, tensor, out);
      break;
    default:
      fill_vector(random, tensor.kind, out);
      break;
  }
}

}  // namespace lily::checkpoint
