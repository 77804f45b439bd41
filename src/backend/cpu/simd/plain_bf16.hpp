// Rounding to bf16 as AVX-512 does it, in plain C++.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>

#include "base/bf16.hpp"

namespace {

// As vcvtneps2bf16: denormal numbers become zeros, which keep their sign.
inline std::uint16_t plain_bf16(float x) {
  return lily::float_to_bf16(std::fabs(x) < FLT_MIN ? std::copysign(0.0F, x) : x);
}

}  // namespace
