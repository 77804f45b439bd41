// The CPU kernels for AVX-512 with VNNI.
#include "backend/cpu/simd/avx512.hpp"
// The bodies use Simd, so they come after it.
#include "backend/cpu/body/table.hpp"

namespace lily::cpu {

const Kernels& avx512_kernels() {
  static constexpr Kernels kKernels = make_kernels("avx512-vnni");
  return kKernels;
}

}  // namespace lily::cpu
