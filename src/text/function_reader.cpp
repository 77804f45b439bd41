// Parameters: where they begin and end, and how their values become JSON while they stream.
#include "text/function_reader.hpp"

#include <algorithm>

namespace lily::text {
namespace {

std::size_t size_of_final_break(std::string_view text) {
  if (text.ends_with("\r\n")) return 2;
  return text.ends_with('\n') ? 1 : 0;
}

std::size_t size_of_first_break(std::string_view text) {
  if (text.starts_with("\r\n")) return 2;
  return text.starts_with('\n') ? 1 : 0;
}

}  // namespace

void FunctionReader::begin(std::string_view function, bool wrapped) {
  function_ = function;
  wrapped_ = wrapped;
  given_.clear();
  arguments_.clear();
  space_.clear();
  in_value_ = false;
}

FunctionReader::Outcome FunctionReader::read(HeldText& text) {
  Outcome outcome = Outcome::go_on;
  while (outcome == Outcome::go_on) outcome = in_value_ ? read_value(text) : read_body(text);
  if (outcome == Outcome::ended) finish();
  return outcome;
}

void FunctionReader::finish() {
  if (in_value_) close_parameter();
  arguments_ += given_.empty() ? "{}" : "}";
}

FunctionReader::Outcome FunctionReader::read_body(HeldText& text) {
  space_ += text.take_space();
  if (text.empty()) return Outcome::need_text;
  const MarkupView markup = text.markup();
  const std::size_t at = text.at();

  const Match close = markup.literal(at, kFunctionClose);
  if (close == Match::yes) {
    text.take(at + kFunctionClose.size());
    return Outcome::ended;
  }
  const NamedTag next = markup.parameter(at);
  if (next.match == Match::yes && !given_.contains(next.name)) {
    open_parameter(next.name);
    text.take(next.end);
    return Outcome::go_on;
  }
  Match unsure = std::max(close, next.match == Match::yes ? Match::no : next.match);
  if (wrapped_) {
    // What can only follow the function ends it: its own closing tag was left out.
    const Match follower =
        std::max({markup.literal(at, kCallClose), markup.literal(at, kCallOpen), markup.function(at).match});
    if (follower == Match::yes) return Outcome::ended;
    unsure = std::max(unsure, follower);
  }
  return unsure == Match::unsure ? Outcome::need_text : Outcome::stray;
}

// Files about XML or about tool calls hold the same tags as the markup, so a closing tag counts only where
// the markup goes on after it. A parameter tag counts where the schema declares the parameter and it is still
// due.
FunctionReader::ValueEnd FunctionReader::value_end(const MarkupView& markup, std::size_t place) const {
  const auto closes = [&](std::string_view tag, std::initializer_list<std::string_view> followers) {
    const Match here = markup.literal(place, tag);
    return here == Match::yes ? markup.followed_by(place + tag.size(), followers, true) : here;
  };
  const Match own = closes(kParameterClose, {kParameterOpen, kFunctionClose, kCallClose, kCallOpen});
  if (own == Match::yes) return ValueEnd::parameter_tag;

  Match other = std::max(closes(kFunctionClose, {kCallClose, kCallOpen, kFunctionOpen}),
                         closes(kCallClose, {kCallOpen}));
  const NamedTag next = markup.parameter(place);
  if (next.match == Match::unsure) other = std::max(other, Match::unsure);
  if (next.match == Match::yes && next.name != parameter_ && !given_.contains(next.name) &&
      tools_.declares(function_, next.name)) {
    other = Match::yes;
  }
  if (other == Match::yes) return ValueEnd::other_tag;
  if (!wrapped_) {
    const Match call = markup.literal(place, kCallOpen);
    if (call == Match::yes) return ValueEnd::not_a_call;
    other = std::max(other, call);
  }
  return std::max(own, other) == Match::unsure ? ValueEnd::unsure : ValueEnd::no;
}

FunctionReader::Outcome FunctionReader::read_value(HeldText& text) {
  if (at_start_) {
    if (text.empty() || (text.rest() == "\r" && !text.final())) return Outcome::need_text;
    text.take(text.at() + size_of_first_break(text.rest()));
    at_start_ = false;
  }
  for (std::size_t place = text.find("<", text.at()); place < text.all().size();
       place = text.find("<", place + 1)) {
    const ValueEnd end = value_end(text.markup(), place);
    if (end == ValueEnd::no) continue;
    if (end == ValueEnd::not_a_call) {
      text.take(place);
      return Outcome::not_a_call;
    }
    // The line break before a closing tag belongs to the tag.
    put_value(text.take(place - size_of_final_break(text.rest().substr(0, place - text.at()))));
    if (end == ValueEnd::unsure) return Outcome::need_text;
    text.take(place + (end == ValueEnd::parameter_tag ? kParameterClose.size() : 0));
    close_parameter();
    return Outcome::go_on;
  }
  const bool half_break = !text.final() && text.rest().ends_with('\r');
  const std::size_t held = half_break ? 1 : size_of_final_break(text.rest());
  put_value(text.take(text.all().size() - held));
  return Outcome::need_text;
}

void FunctionReader::open_parameter(std::string_view name) {
  parameter_ = name;
  types_ = tools_.types(function_, parameter_);
  in_value_ = true;
  at_start_ = true;
  streams_ = false;
  value_.clear();
  space_.clear();
}

void FunctionReader::close_parameter() {
  if (streams_) {
    arguments_ += '"';
  } else {
    put_parameter_name();
    arguments_ += argument_json(types_, value_);
  }
  in_value_ = false;
}

void FunctionReader::put_parameter_name() {
  arguments_ += given_.empty() ? "{" : ", ";
  append_json_string(arguments_, parameter_);
  arguments_ += ": ";
  given_.insert(parameter_);
}

void FunctionReader::put_value(std::string_view piece) {
  if (streams_) {
    put_string_piece(piece);
    return;
  }
  value_ += piece;
  if (is_surely_text(types_, value_)) {
    put_parameter_name();
    arguments_ += '"';
    put_string_piece(value_);
    streams_ = true;
  }
}

void FunctionReader::put_string_piece(std::string_view piece) {
  std::string literal;
  append_json_string(literal, piece);
  arguments_.append(literal, 1, literal.size() - 2);
}

}  // namespace lily::text
