// One state machine from text to reasoning, content and tool calls. What it does not understand is content.
#include "text/output_parser.hpp"

#include <functional>
#include <set>
#include <utility>

#include "text/answer_builder.hpp"
#include "text/argument_value.hpp"
#include "text/call_markup.hpp"
#include "text/json_call.hpp"
#include "text/tool_catalogue.hpp"

namespace lily::text {
namespace {

constexpr std::string_view kThinkOpen = "<think>";
constexpr std::string_view kThinkClose = "</think>";

std::size_t size_of_final_break(std::string_view text) {
  if (text.ends_with("\r\n")) return 2;
  return text.ends_with('\n') ? 1 : 0;
}

}  // namespace

struct OutputParser::Impl {
  explicit Impl(Options options)
      : tools(std::move(options.tools)),
        builder(options.stop_strings, std::move(options.call_id_prefix)),
        state(options.in_think ? State::think_start : State::content) {}

  enum class State {
    think_start,  // before the reasoning
    reasoning,
    think_end,  // line breaks after the reasoning
    content,
    json_call,   // inside an object in call tags
    body,        // inside a function, between parameters
    value,       // inside a parameter
    after_call,  // after a function
  };

  const ToolCatalogue tools;
  AnswerBuilder builder;
  State state;
  std::string text;  // what was pushed and not taken yet begins at `at`
  std::size_t at = 0;
  bool final = false;  // no more text follows
  bool finished = false;
  bool line_start = true;  // content begins a line at `at`
  std::string space;       // white space after a call or a parameter, content if content follows

  // The call being read.
  bool in_call = false;
  bool wrapped = false;       // inside call tags
  bool wrapper_open = false;  // their closing tag has not come
  std::string function;
  std::set<std::string, std::less<>> given;  // its parameters so far
  std::string parameter;
  ValueTypes types;
  bool value_start = false;  // the line break after the tag may follow
  bool value_streams = false;
  std::string value;  // of a parameter that cannot be passed on before its end

  // A function without call tags is a call only when it is whole: until then its text and arguments are kept.
  bool tentative = false;
  std::string raw;
  std::string kept_arguments;

  JsonObjectScanner json_scanner;
  std::size_t json_begin = 0;  // of the object within raw

  MarkupView view() const { return {text, final}; }
  std::string_view rest() const { return std::string_view(text).substr(at); }

  void take(std::size_t end) {
    if (tentative) raw.append(text, at, end - at);
    at = end;
  }

  void take_space() {
    std::size_t end = at;
    while (end < text.size() && kMarkupSpace.find(text[end]) != std::string_view::npos) ++end;
    space.append(text, at, end - at);
    take(end);
  }

  // Runs until more text is needed.
  void run() {
    while (!builder.stopped() && step()) {
    }
    if (builder.stopped()) at = text.size();
    text.erase(0, at);
    at = 0;
  }

  bool step() {
    switch (state) {
      case State::think_start:
        return step_think_start();
      case State::reasoning:
        return step_reasoning();
      case State::think_end:
        return step_think_end();
      case State::content:
        return step_content();
      case State::json_call:
        return step_json_call();
      case State::body:
        return step_body();
      case State::value:
        return step_value();
      case State::after_call:
        return step_after_call();
    }
    return false;
  }

  // --- Reasoning. The prompt opened the block; some answers open it once more.

  bool step_think_start() {
    take(std::min(text.find_first_not_of('\n', at), text.size()));
    if (rest().empty()) return false;
    const Match open = view().literal(at, kThinkOpen);
    if (open == Match::unsure) return false;
    if (open == Match::yes) take(at + kThinkOpen.size());
    state = State::reasoning;
    return true;
  }

  bool step_reasoning() {
    std::size_t end = text.find('<', at);
    for (; end != std::string::npos; end = text.find('<', end + 1)) {
      const Match close = view().literal(end, kThinkClose);
      if (close == Match::no) continue;
      builder.reasoning(rest().substr(0, end - at));
      take(end);
      if (close == Match::unsure) return false;
      take(end + kThinkClose.size());
      state = State::think_end;
      return true;
    }
    builder.reasoning(rest());
    take(text.size());
    return false;
  }

  bool step_think_end() {
    take(std::min(text.find_first_not_of('\n', at), text.size()));
    if (rest().empty()) return false;
    state = State::content;
    return true;
  }

  // --- Content.

  void put_content(std::string_view piece) {
    if (piece.empty()) return;
    builder.content(std::exchange(space, {}));
    builder.content(piece);
    line_start = piece.ends_with('\n');
  }

  void take_content(std::size_t end) {
    put_content(rest().substr(0, end - at));
    take(end);
  }

  bool step_content() {
    if (rest().empty()) return false;
    if (tools.empty()) {
      take_content(text.size());
      return false;
    }
    take_content(std::min(text.find('<', at), text.size()));
    if (rest().empty() || builder.stopped()) return false;

    const Match wrapper = view().literal(at, kCallOpen);
    if (wrapper == Match::yes) return step_wrapper();
    const NamedTag tag = line_start ? view().function(at) : NamedTag{};
    if (wrapper == Match::unsure || tag.match == Match::unsure) return false;
    if (tag.match == Match::yes && tools.has(tag.name)) {
      tentative = true;
      raw = std::exchange(space, {});
      begin_function(tag, false);
      return true;
    }
    take_content(at + 1);
    return true;
  }

  // At the opening tag of a call: a function or a JSON object must follow.
  bool step_wrapper() {
    const std::size_t inside = at + kCallOpen.size();
    const Match brace = view().followed_by(inside, {"{"}, false);
    if (brace == Match::yes) {
      const std::size_t begin = text.find('{', inside);
      raw = text.substr(at, begin - at);
      json_begin = raw.size();
      json_scanner = {};
      take(begin);
      state = State::json_call;
      return true;
    }
    if (brace == Match::unsure) return false;
    const Match function_tag = view().followed_by(inside, {kFunctionOpen}, false);
    if (function_tag == Match::unsure) return false;
    if (function_tag == Match::yes) {
      const NamedTag tag = view().function(text.find('<', inside));
      if (tag.match == Match::unsure) return false;
      if (tag.match == Match::yes) {
        begin_function(tag, true);
        return true;
      }
    }
    take_content(inside);
    return true;
  }

  bool step_json_call() {
    const std::size_t end = json_scanner.scan(text, at);
    raw.append(text, at, end - at);
    take(end);
    if (json_scanner.state() == JsonObjectScanner::State::open) return false;
    const std::string object = std::exchange(raw, {});
    const auto call = json_scanner.state() == JsonObjectScanner::State::complete
                          ? read_json_call(std::string_view(object).substr(json_begin))
                          : std::nullopt;
    if (!call) {
      raw = object;
      give_up();
      return true;
    }
    space.clear();
    builder.begin_call(call->name);
    builder.arguments(call->arguments.dump_python());
    wrapped = wrapper_open = true;
    leave_function();
    return true;
  }

  // --- Inside a function.

  void begin_function(const NamedTag& tag, bool in_wrapper) {
    function = tag.name;
    in_call = true;
    wrapped = in_wrapper;
    wrapper_open = true;
    given.clear();
    take(tag.end);
    if (!tentative) {
      space.clear();
      builder.begin_call(function);
    }
    state = State::body;
  }

  void put_arguments(std::string_view json) {
    if (tentative) {
      kept_arguments += json;
    } else {
      builder.arguments(json);
    }
  }

  void end_function() {
    put_arguments(given.empty() ? "{}" : "}");
    if (tentative) {
      tentative = false;
      raw.clear();
      builder.begin_call(function);
      builder.arguments(std::exchange(kept_arguments, {}));
    }
    leave_function();
  }

  void leave_function() {
    in_call = false;
    space.clear();
    line_start = true;
    state = State::after_call;
  }

  // What looked like a call is something else.
  void give_up() {
    if (tentative) space.clear();  // it is in raw
    tentative = in_call = false;
    kept_arguments.clear();
    state = State::content;
    put_content(std::exchange(raw, {}));
  }

  bool step_body() {
    take_space();
    if (rest().empty()) return false;
    const Match close = view().literal(at, kFunctionClose);
    if (close == Match::yes) {
      take(at + kFunctionClose.size());
      end_function();
      return true;
    }
    const NamedTag next = view().parameter(at);
    if (next.match == Match::yes && !given.contains(next.name)) {
      open_parameter(next);
      return true;
    }
    if (close == Match::unsure || next.match == Match::unsure) return false;
    if (!tentative) {
      const Match wrapper = std::max(view().literal(at, kCallClose), view().literal(at, kCallOpen));
      const Match function_tag = view().function(at).match;
      if (wrapper == Match::yes || function_tag == Match::yes) {  // the function's closing tag was left out
        end_function();
        return true;
      }
      if (wrapper == Match::unsure || function_tag == Match::unsure) return false;
      take_content(std::min(text.find_first_of("< \t\r\n", at + 1), text.size()));  // a word of stray text
      return true;
    }
    give_up();
    return true;
  }

  void open_parameter(const NamedTag& tag) {
    parameter = tag.name;
    types = tools.types(function, parameter);
    value_start = true;
    value_streams = false;
    value.clear();
    space.clear();
    take(tag.end);
    state = State::value;
  }

  enum class ValueEnd { no, unsure, parameter_tag, other_tag, not_a_call };

  // Whether the tag at `place` ends the value. Files about XML or about tool calls hold the same tags, so a
  // closing tag counts only where the markup goes on after it.
  ValueEnd value_end(std::size_t place) const {
    const auto closes = [&](std::string_view tag, std::initializer_list<std::string_view> followers) {
      const Match here = view().literal(place, tag);
      return here == Match::yes ? view().followed_by(place + tag.size(), followers, true) : here;
    };
    const Match own = closes(kParameterClose, {kParameterOpen, kFunctionClose, kCallClose, kCallOpen});
    if (own == Match::yes) return ValueEnd::parameter_tag;
    const NamedTag next = view().parameter(place);
    Match other = std::max(closes(kFunctionClose, {kCallClose, kCallOpen, kFunctionOpen}),
                           closes(kCallClose, {kCallOpen}));
    if (next.match == Match::unsure) other = std::max(other, Match::unsure);
    if (next.match == Match::yes && next.name != parameter && !given.contains(next.name) &&
        tools.declares(function, next.name)) {
      other = Match::yes;
    }
    if (other == Match::yes) return ValueEnd::other_tag;
    if (tentative) {
      const Match call = view().literal(place, kCallOpen);
      if (call == Match::yes) return ValueEnd::not_a_call;
      other = std::max(other, call);
    }
    return own == Match::unsure || other == Match::unsure ? ValueEnd::unsure : ValueEnd::no;
  }

  bool step_value() {
    if (value_start) {
      if (rest().empty() || (rest() == "\r" && !final)) return false;
      take(at + (rest().starts_with("\r\n") ? 2 : rest().starts_with('\n') ? 1 : 0));
      value_start = false;
    }
    for (std::size_t place = text.find('<', at); place != std::string::npos;
         place = text.find('<', place + 1)) {
      const ValueEnd end = value_end(place);
      if (end == ValueEnd::no) continue;
      if (end == ValueEnd::not_a_call) {
        take(place);
        give_up();
        return true;
      }
      // The line break before a closing tag belongs to the tag.
      take_value(place - size_of_final_break(rest().substr(0, place - at)));
      if (end == ValueEnd::unsure) return false;
      take(place + (end == ValueEnd::parameter_tag ? kParameterClose.size() : 0));
      close_parameter();
      return true;
    }
    const bool half_break = !final && rest().ends_with('\r');
    take_value(text.size() - (half_break ? 1 : size_of_final_break(rest())));
    return false;
  }

  void take_value(std::size_t end) {
    const std::string_view piece = rest().substr(0, end - at);
    if (value_streams) {
      put_value_text(piece);
    } else {
      value += piece;
      if (is_surely_text(types, value)) {
        put_parameter_name();
        put_arguments("\"");
        put_value_text(std::exchange(value, {}));
        value_streams = true;
      }
    }
    take(end);
  }

  void put_value_text(std::string_view piece) {
    if (piece.empty()) return;
    std::string literal;
    append_json_string(literal, piece);
    put_arguments(std::string_view(literal).substr(1, literal.size() - 2));
  }

  void put_parameter_name() {
    std::string json = given.empty() ? "{" : ", ";
    append_json_string(json, parameter);
    put_arguments(json + ": ");
    given.insert(parameter);
  }

  void close_parameter() {
    if (value_streams) {
      put_arguments("\"");
    } else {
      put_parameter_name();
      put_arguments(argument_json(types, value));
    }
    state = State::body;
  }

  // --- After a function: its closing call tag, further calls, or content.

  bool step_after_call() {
    take_space();
    if (rest().empty()) return false;
    if (wrapper_open) {
      const Match close = view().literal(at, kCallClose);
      if (close == Match::unsure) return false;
      if (close == Match::yes) {
        take(at + kCallClose.size());
        space.clear();
        wrapper_open = false;
        return true;
      }
      const NamedTag tag = wrapped ? view().function(at) : NamedTag{};
      if (tag.match == Match::unsure) return false;
      if (tag.match == Match::yes) {
        begin_function(tag, true);
        return true;
      }
    }
    state = State::content;
    return true;
  }

  // --- The end.

  void finish(bool by_length) {
    if (!builder.stopped()) {
      if (by_length) drop_cut_tag();
      final = true;
      run();
    }
    if (tentative || state == State::json_call) {
      if (by_length) {
        tentative = in_call = false;
        builder.discard_space();
      } else {
        give_up();
        run();
      }
    }
    if (in_call && by_length && !builder.stopped()) {
      builder.drop_call();
    } else if (in_call) {
      if (state == State::value) close_parameter();
      end_function();
    }
    builder.finish(by_length);
  }

  // The text held when the token limit strikes may be the beginning of a tag, which is no content.
  void drop_cut_tag() {
    const bool call = rest().starts_with(kCallOpen) || rest().starts_with(kFunctionOpen);
    if (state == State::body || (state == State::after_call && wrapper_open) ||
        (state == State::content && call)) {
      at = text.size();
      if (call) builder.discard_space();
    }
  }
};

OutputParser::OutputParser(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
OutputParser::~OutputParser() = default;
OutputParser::OutputParser(OutputParser&&) noexcept = default;

Delta OutputParser::push(std::string_view text) {
  if (impl_->finished || impl_->builder.stopped()) return {};
  impl_->text += text;
  impl_->run();
  return impl_->builder.take_delta();
}

bool OutputParser::stopped() const noexcept { return impl_->builder.stopped(); }

bool OutputParser::in_reasoning() const noexcept {
  return impl_->state == Impl::State::think_start || impl_->state == Impl::State::reasoning;
}

Delta OutputParser::finish(bool by_length) {
  if (!std::exchange(impl_->finished, true)) impl_->finish(by_length);
  return impl_->builder.take_delta();
}

const Answer& OutputParser::answer() const noexcept { return impl_->builder.answer(); }

}  // namespace lily::text
