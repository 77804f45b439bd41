// The CPU kernels for plain C++.
#include "backend/cpu/simd/generic.hpp"
// The bodies use Simd, so they come after it.
#include "backend/cpu/body/table.hpp"

namespace lily::cpu {

const Kernels& generic_kernels() {
  static constexpr Kernels kKernels = make_kernels("generic");
  return kKernels;
}

}  // namespace lily::cpu
