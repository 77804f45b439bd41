// Whether a text has certain parts, and which is missing; over GoogleTest alone, because including GoogleMock
// and using its matchers costs a second per file.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string_view>

namespace lily::testing {

inline ::testing::AssertionResult contains(std::string_view text,
                                           std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    if (text.find(part) == std::string_view::npos) {
      return ::testing::AssertionFailure() << "no \"" << part << "\" in \"" << text << '"';
    }
  }
  return ::testing::AssertionSuccess() << "all is in \"" << text << '"';
}

inline ::testing::AssertionResult contains(std::string_view text, std::string_view part) {
  return contains(text, {part});
}

inline ::testing::AssertionResult starts_with(std::string_view text, std::string_view part) {
  if (text.starts_with(part)) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no \"" << part << "\" begins \"" << text << '"';
}

inline ::testing::AssertionResult ends_with(std::string_view text, std::string_view part) {
  if (text.ends_with(part)) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "no \"" << part << "\" ends \"" << text << '"';
}

}  // namespace lily::testing
