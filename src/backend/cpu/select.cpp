// Run-time detection of instruction sets.
#include "backend/cpu/select.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lily/error.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace lily::cpu {

namespace {

#if defined(__x86_64__)
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}

// The processor has AMX's tiles, its products of bf16 and of 8 bits, and conversions to bf16 in vectors, and
// the system grants this process the tiles' 8 KiB of state.
bool has_amx() {
#if defined(__linux__)
  constexpr unsigned kNeeded = 1U << 22 | 1U << 24 | 1U << 25;  // cpuid 7.0, edx: bf16, tiles, int8
  constexpr long kRequestPermission = 0x1023, kTileData = 18;   // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kNeeded) != kNeeded) return false;
  if (!__builtin_cpu_supports("avx512bf16")) return false;
  static const bool kGranted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return kGranted;
#else
  return false;
#endif
}
#elif defined(__aarch64__)
#if defined(__APPLE__)
bool has_feature(const char* name) {
  int value = 0;
  std::size_t size = sizeof value;
  return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
}
bool has_dot_product() { return has_feature("hw.optional.arm.FEAT_DotProd"); }
bool has_matrix_product() { return has_feature("hw.optional.arm.FEAT_I8MM"); }
#elif defined(__linux__)
bool has_dot_product() { return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0; }
bool has_matrix_product() { return (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0; }
#else
bool has_dot_product() { return false; }
bool has_matrix_product() { return false; }
#endif
#endif

}  // namespace

std::vector<const Kernels*> available_kernels() {
  std::vector<const Kernels*> tables = {&generic_kernels()};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) tables.push_back(&avx2_kernels());
  if (has_avx512()) tables.push_back(&avx512_kernels());
  if (has_avx512() && has_amx()) tables.push_back(&amx_kernels());
#elif defined(__aarch64__)
  if (has_dot_product()) tables.push_back(&neon_kernels());
  if (has_dot_product() && has_matrix_product()) tables.push_back(&i8mm_kernels());
#endif
  return tables;
}

const Kernels& select_kernels(std::string_view name) {
  const std::vector<const Kernels*> tables = available_kernels();
  if (name.empty()) return *tables.back();
  std::vector<std::string_view> names;
  for (const Kernels* table : tables) {
    if (table->name == name) return *table;
    names.emplace_back(table->name);
  }
  throw Error(ErrorKind::unsupported,
              fmt::format("instruction set '{}' is not available here; this machine has: {}", name,
                          fmt::join(names, ", ")));
}

}  // namespace lily::cpu
