// Reads the inside of one function call, parameter by parameter, and writes its arguments as JSON.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "text/argument_value.hpp"
#include "text/held_text.hpp"
#include "text/tool_catalogue.hpp"

namespace lily::text {

class FunctionReader {
 public:
  explicit FunctionReader(const ToolCatalogue& tools) : tools_(tools) {}

  // Begins after a function tag. `wrapped`: the function stands inside call tags.
  void begin(std::string_view function, bool wrapped);

  enum class Outcome {
    go_on,
    need_text,   // all that is certain has been read
    ended,       // the function is complete; what ended it is taken, or left where it belongs to what follows
    stray,       // between parameters, before text that is no markup
    not_a_call,  // before markup that cannot stand in a function outside call tags
  };
  // Reads until it cannot go on.
  Outcome read(HeldText& text);
  // Ends the function where its text ended.
  void finish();

  const std::string& function() const { return function_; }
  bool between_parameters() const { return !in_value_; }
  // What was added to the JSON text of the arguments since the last call.
  std::string take_arguments() { return std::exchange(arguments_, {}); }
  // White space before the stray text.
  std::string take_space() { return std::exchange(space_, {}); }

 private:
  enum class ValueEnd { no, unsure, parameter_tag, other_tag, not_a_call };

  Outcome read_body(HeldText& text);
  Outcome read_value(HeldText& text);
  ValueEnd value_end(const MarkupView& markup, std::size_t place) const;
  void open_parameter(std::string_view name);
  void close_parameter();
  void put_parameter_name();
  void put_value(std::string_view piece);
  void put_string_piece(std::string_view piece);

  const ToolCatalogue& tools_;
  std::string function_;
  bool wrapped_ = false;
  std::set<std::string, std::less<>> given_;  // parameters so far
  std::string arguments_;
  std::string space_;

  // The open parameter.
  bool in_value_ = false;
  std::string parameter_;
  ValueTypes types_;
  bool at_start_ = false;  // the line break after the tag may follow
  bool streams_ = false;   // the value is a string for sure and passed on as it comes
  std::string value_;      // what cannot be passed on before its end
};

}  // namespace lily::text
