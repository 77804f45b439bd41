// The resident memory of a process.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>
#include <string>

namespace lily::serve_test {

// MiB; of a process that runs.
inline long resident_mib(pid_t id = getpid()) {
  std::ifstream statm("/proc/" + std::to_string(id) + "/statm");
  long total = 0;
  long resident = 0;
  if (!(statm >> total >> resident)) throw std::runtime_error("cannot read the memory of a process");
  return resident * (sysconf(_SC_PAGESIZE) >> 10) >> 10;
}

}  // namespace lily::serve_test
