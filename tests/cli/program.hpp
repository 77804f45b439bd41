// Runs the built program as a person would: arguments and standard input in; output, errors and status out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lily::testing {

struct Outcome {
  std::string output;
  std::string errors;
  int status = -1;  // exit code; 128 + signal when a signal ended it
};

// Standard streams are files, so nothing is a terminal. Ended by SIGKILL after two minutes.
Outcome run_lily(const std::vector<std::string>& arguments, std::string_view input = {});

}  // namespace lily::testing
