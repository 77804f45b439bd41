// The memory that the plan may count on: the machine's, or less in a control group.
#include "base/machine_memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

namespace lily {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

// A folder in the place of /sys/fs/cgroup.
class ControlGroups : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(mount_); }

  void write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories((mount_ / file).parent_path());
    std::ofstream(mount_ / file) << text << "\n";
  }

  const std::filesystem::path mount_ =
      std::filesystem::path(testing::TempDir()) / ("lily-control-groups-" + std::to_string(::getpid()));
};

TEST_F(ControlGroups, EachAroundAProcessBinds) {
  EXPECT_EQ(control_group_limit(mount_, "0::/system.slice/lily.service\n"), kNoLimit);
  write("system.slice/lily.service/memory.max", "max");
  EXPECT_EQ(control_group_limit(mount_, "0::/system.slice/lily.service\n"), kNoLimit);
  write("system.slice/memory.max", "8000000000");
  EXPECT_EQ(control_group_limit(mount_, "0::/system.slice/lily.service\n"), 8000000000U);
  write("system.slice/lily.service/memory.max", "4000000000");
  EXPECT_EQ(control_group_limit(mount_, "0::/system.slice/lily.service\n"), 4000000000U);
  EXPECT_EQ(control_group_limit(mount_, "0::/system.slice\n"), 8000000000U);
  EXPECT_EQ(control_group_limit(mount_, "0::/\n"), kNoLimit);
}

TEST_F(ControlGroups, OfAContainerAreSeenWithoutTheirPath) {
  write("memory.max", "3000000000");
  EXPECT_EQ(control_group_limit(mount_, "0::/\n"), 3000000000U);
  EXPECT_EQ(control_group_limit(mount_, "0::/docker/1234\n"), 3000000000U);
}

TEST_F(ControlGroups, OfTheFirstVersionCountToo) {
  write("memory/a/memory.limit_in_bytes", "5000000000");
  write("memory/a/b/memory.limit_in_bytes", "9223372036854771712");
  const std::string memberships = "5:devices:/x\n4:cpu,memory:/a/b\n1:name=systemd:/\n0::/\n";
  EXPECT_EQ(control_group_limit(mount_, memberships), 5000000000U);
  EXPECT_EQ(control_group_limit(mount_, "no group\n\n:\n"), kNoLimit);
}

TEST(MachineMemory, IsSomethingAndAtMostTheMachines) {
  const auto pages = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
  EXPECT_GT(machine_memory(), std::uint64_t{64} << 20);
  EXPECT_LE(machine_memory(), pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)));
}

}  // namespace
}  // namespace lily
