// Recognises the tags of tool calls at the front of text that may not be complete yet.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string_view>

namespace lily::text {

inline constexpr std::string_view kCallOpen = "<tool_call>";
inline constexpr std::string_view kCallClose = "</tool_call>";
inline constexpr std::string_view kFunctionOpen = "<function=";
inline constexpr std::string_view kFunctionClose = "</function>";
inline constexpr std::string_view kParameterOpen = "<parameter=";
inline constexpr std::string_view kParameterClose = "</parameter>";
inline constexpr std::string_view kMarkupSpace = " \t\r\n";

// Whether something stands at a place; `unsure` while the text there is only a beginning of it.
enum class Match { no, unsure, yes };

// A tag with a name in it, "<function=read>".
struct NamedTag {
  Match match = Match::no;
  std::string_view name;
  std::size_t end = 0;  // just after the tag
};

// A view of text held by the parser. Every look ahead is bounded, so that time stays linear in the text
// however it is cut. Nothing is unsure in text that is final.
class MarkupView {
 public:
  MarkupView(std::string_view text, bool final) : text_(text), final_(final) {}

  Match literal(std::size_t at, std::string_view tag) const;
  // White space, then one of the tags, or the end of final text where `or_end`.
  Match followed_by(std::size_t at, std::initializer_list<std::string_view> tags, bool or_end) const;
  // A function tag whose body begins properly.
  NamedTag function(std::size_t at) const;
  NamedTag parameter(std::size_t at) const;

 private:
  NamedTag named_tag(std::size_t at, std::string_view open) const;

  std::string_view text_;
  bool final_;
};

}  // namespace lily::text
