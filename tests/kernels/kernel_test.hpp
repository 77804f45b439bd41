// Runs a test once per instruction set of this machine, with deterministic random inputs.
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/select.hpp"

namespace lily::cpu {

class KernelTest : public ::testing::TestWithParam<const Kernels*> {
 protected:
  const Kernels& kernels() const { return *GetParam(); }

  float normal() { return normal_(random_); }
  std::vector<float> normals(std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = normal();
    return values;
  }
  std::uint32_t random_bits() { return static_cast<std::uint32_t>(random_()); }

 private:
  std::mt19937 random_{20261129};
  std::normal_distribution<float> normal_;
};

inline std::string instruction_set_name(const ::testing::TestParamInfo<const Kernels*>& info) {
  std::string name;
  for (const char c : std::string(info.param->name))
    name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

}  // namespace lily::cpu

// Every suite over KernelTest is instantiated for all instruction sets.
#define LILY_FOR_ALL_INSTRUCTION_SETS(Suite)                                             \
  INSTANTIATE_TEST_SUITE_P(, Suite, ::testing::ValuesIn(lily::cpu::available_kernels()), \
                           lily::cpu::instruction_set_name)
