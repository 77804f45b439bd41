// How much memory this process may have.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace lily {

// Bytes: the machine's memory, or its control group's when that is less.
std::uint64_t machine_memory();

// The least limit of the control groups (both versions) that `memberships`, the text of /proc/self/cgroup,
// names under `mount`, and of those around them, of which each binds. The largest number without any.
std::uint64_t control_group_limit(const std::filesystem::path& mount, std::string_view memberships);

// Bytes of the machine that nobody uses now, not even for a cache; 0 where the system does not tell.
std::uint64_t free_memory();

}  // namespace lily
