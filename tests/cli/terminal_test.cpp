// The filter between a model's text and a person's terminal.
#include "cli/terminal.hpp"

#include <gtest/gtest.h>

namespace lily::cli {
namespace {

TEST(WithoutControls, keeps_text_line_feeds_and_tabs) {
  const std::string text = "a\tb\n\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x8c\xb8\xc2\xa0";
  EXPECT_EQ(without_controls(text), text);
}

TEST(WithoutControls, shows_every_control_character_as_replaced) {
  EXPECT_EQ(without_controls("\x1b]0;title\x07"), "\xef\xbf\xbd]0;title\xef\xbf\xbd");
  EXPECT_EQ(without_controls("a\rb\x7f\b"),
            "a\xef\xbf\xbd"
            "b\xef\xbf\xbd\xef\xbf\xbd");
  // U+009B begins a control sequence in terminals that know 8-bit controls.
  EXPECT_EQ(without_controls("\xc2\x9b"
                             "31m"),
            "\xef\xbf\xbd"
            "31m");
}

}  // namespace
}  // namespace lily::cli
