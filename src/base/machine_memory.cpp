// The machine's memory, or its control group's limit.
#include "base/machine_memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace lily {

std::uint64_t machine_memory() {
  std::uint64_t bytes =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::uint64_t group_limit = 0;
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> group_limit) bytes = std::min(bytes, group_limit);
  return bytes;
}

std::uint64_t free_memory() {
#if defined(_SC_AVPHYS_PAGES)
  return static_cast<std::uint64_t>(sysconf(_SC_AVPHYS_PAGES)) *
         static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
#else
  return 0;
#endif
}

}  // namespace lily
