// The CPU kernels for NEON with the dot product extension.
#include "backend/cpu/simd/neon.hpp"
// The bodies use Simd, so they come after it.
#include "backend/cpu/body/table.hpp"

namespace lily::cpu {

const Kernels& neon_kernels() {
  static constexpr Kernels kKernels = make_kernels("neon-dotprod");
  return kKernels;
}

}  // namespace lily::cpu
