// The CPU kernels for AVX2 and FMA.
#include "backend/cpu/simd/avx2.hpp"
// The bodies use Simd, so they come after it.
#include "backend/cpu/body/table.hpp"

namespace lily::cpu {

const Kernels& avx2_kernels() {
  static constexpr Kernels kKernels = make_kernels("avx2");
  return kKernels;
}

}  // namespace lily::cpu
