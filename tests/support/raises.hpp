// Expecting one Error: its kind, and what its message and parameter say.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "lily/error.hpp"

namespace lily::testing {

// Runs `work` and returns the Error it throws; fails the test when it throws none.
template <class Work>
Error raised(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error was raised";
  return {ErrorKind::internal, "no error was raised"};
}

inline void expect_mentions(const Error& error, const std::string& text) {
  EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << "message: " << error.what();
}

}  // namespace lily::testing
