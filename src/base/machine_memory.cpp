// The machine's memory, or its control group's limit.
#include "base/machine_memory.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace lily {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

// "max", and a file that is not there, limit nothing.
std::uint64_t limit_in(const std::filesystem::path& file) {
  std::uint64_t bytes = 0;
  return std::ifstream(file) >> bytes ? bytes : kNoLimit;
}

// Of the group at `path` under `root` and those around it. A container may see its own group as the root and
// be told the path that it has outside, so what is not there is passed over.
std::uint64_t limit_along(std::filesystem::path root, std::string_view path, const char* file) {
  std::uint64_t bytes = limit_in(root / file);
  for (const std::filesystem::path& part : std::filesystem::path(path).relative_path()) {
    root /= part;
    bytes = std::min(bytes, limit_in(root / file));
  }
  return bytes;
}

}  // namespace

std::uint64_t control_group_limit(const std::filesystem::path& mount, std::string_view memberships) {
  std::uint64_t bytes = kNoLimit;
  std::istringstream lines{std::string(memberships)};
  // "0::/a/b", or "4:cpu,memory:/a/b" of the first version
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      bytes = std::min(bytes, limit_along(mount, path, "memory.max"));
    } else if (controllers.find(",memory,") != std::string::npos) {
      bytes = std::min(bytes, limit_along(mount / "memory", path, "memory.limit_in_bytes"));
    }
  }
  return bytes;
}

std::uint64_t machine_memory() {
  const std::uint64_t bytes =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::ostringstream memberships;
  memberships << std::ifstream("/proc/self/cgroup").rdbuf();
  return std::min(bytes, control_group_limit("/sys/fs/cgroup", memberships.str()));
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
