// One state machine from text to reasoning, content and tool calls. What it does not understand is content.
#include "text/output_parser.hpp"

#include <utility>

#include "text/answer_builder.hpp"
#include "text/call_markup.hpp"
#include "text/function_reader.hpp"
#include "text/held_text.hpp"
#include "text/json_call.hpp"
#include "text/tool_catalogue.hpp"

namespace lily::text {
namespace {

constexpr std::string_view kThinkOpen = "<think>";
constexpr std::string_view kThinkClose = "</think>";

}  // namespace

class OutputParser::Impl {
 public:
  explicit Impl(Options options)
      : tools_(std::move(options.tools)),
        builder_(options.stop_strings, std::move(options.call_id_prefix)),
        reader_(tools_),
        state_(options.in_think ? State::think_start : State::content) {}

  Delta push(std::string_view text) {
    if (finished_ || stopped()) return {};
    held_.push(text);
    run();
    return builder_.take_delta();
  }

  Delta finish(bool by_length) {
    if (std::exchange(finished_, true)) return {};
    if (!stopped()) {
      if (by_length) drop_cut_tag();
      held_.end();
      run();
    }
    if (tentative_ || state_ == State::json_call) {
      if (by_length) {
        builder_.discard_space();
      } else {
        give_up(held_.stop_recording());
        run();
      }
    } else if (state_ == State::function) {
      if (by_length && !stopped()) {
        builder_.drop_call();
      } else {
        reader_.finish();
        builder_.arguments(reader_.take_arguments());
      }
    }
    builder_.finish(by_length);
    return builder_.take_delta();
  }

  bool stopped() const { return builder_.stopped(); }
  bool in_reasoning() const { return state_ == State::think_start || state_ == State::reasoning; }
  const Answer& answer() const { return builder_.answer(); }

 private:
  enum class State {
    think_start,  // before the reasoning
    reasoning,
    think_end,  // line breaks after the reasoning
    content,
    json_call,   // inside an object in call tags
    function,    // inside a function
    after_call,  // after either
  };

  // Runs until more text is needed.
  void run() {
    while (!stopped() && step()) {
    }
    if (stopped()) held_.take_all();
    held_.compact();
  }

  bool step() {
    switch (state_) {
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
      case State::function:
        return step_function();
      case State::after_call:
        return step_after_call();
    }
    return false;
  }

  // --- Reasoning.

  void skip_line_breaks() {
    held_.take(std::min(held_.all().find_first_not_of('\n', held_.at()), held_.all().size()));
  }

  bool step_think_start() {
    skip_line_breaks();
    if (held_.empty()) return false;
    // The prompt opened the block; some answers open it once more.
    const Match open = held_.markup().literal(held_.at(), kThinkOpen);
    if (open == Match::unsure) return false;
    if (open == Match::yes) held_.take(held_.at() + kThinkOpen.size());
    state_ = State::reasoning;
    return true;
  }

  // Only the first closing tag ends the reasoning; the answer may speak of the tag later.
  bool step_reasoning() {
    builder_.reasoning(held_.take(held_.find("<", held_.at())));
    if (held_.empty()) return false;
    const Match close = held_.markup().literal(held_.at(), kThinkClose);
    if (close == Match::unsure) return false;
    if (close == Match::yes) {
      held_.take(held_.at() + kThinkClose.size());
      state_ = State::think_end;
    } else {
      builder_.reasoning(held_.take(held_.at() + 1));
    }
    return true;
  }

  bool step_think_end() {
    skip_line_breaks();
    if (held_.empty()) return false;
    state_ = State::content;
    return true;
  }

  // --- Content.

  void put_content(std::string_view text) {
    if (text.empty()) return;
    builder_.content(std::exchange(space_, {}));
    builder_.content(text);
    line_start_ = text.ends_with('\n');
  }

  bool step_content() {
    if (tools_.empty()) {
      put_content(held_.take_all());
      return false;
    }
    put_content(held_.take(held_.find("<", held_.at())));
    if (held_.empty() || stopped()) return false;

    const Match wrapper = held_.markup().literal(held_.at(), kCallOpen);
    if (wrapper == Match::yes) return step_wrapper();
    const NamedTag tag = line_start_ ? held_.markup().function(held_.at()) : NamedTag{};
    if (wrapper == Match::unsure || tag.match == Match::unsure) return false;
    if (tag.match == Match::yes && tools_.has(tag.name)) {
      // Without call tags only a whole function is a call: until it ends, its text may turn out to be
      // content.
      tentative_ = true;
      held_.record(std::exchange(space_, {}));
      begin_function(tag, false);
    } else {
      put_content(held_.take(held_.at() + 1));
    }
    return true;
  }

  // At the opening tag of a call: a function or a JSON object must follow.
  bool step_wrapper() {
    const MarkupView markup = held_.markup();
    const std::size_t inside = held_.at() + kCallOpen.size();
    const Match object = markup.followed_by(inside, {"{"}, false);
    if (object == Match::yes) {
      held_.record({});
      object_begin_ = held_.take(held_.find("{", inside)).size();
      scanner_ = {};
      state_ = State::json_call;
      return true;
    }
    NamedTag tag{.match = markup.followed_by(inside, {kFunctionOpen}, false), .name = {}};
    if (tag.match == Match::yes) tag = markup.function(held_.find("<", inside));
    if (object == Match::unsure || tag.match == Match::unsure) return false;
    if (tag.match == Match::yes) {
      begin_function(tag, true);
    } else {
      put_content(held_.take(inside));
    }
    return true;
  }

  // What looked like a call is content.
  void give_up(const std::string& text) {
    tentative_ = false;
    state_ = State::content;
    put_content(text);
  }

  // --- Calls.

  bool step_json_call() {
    held_.take(scanner_.scan(held_.all(), held_.at()));
    if (scanner_.state() == JsonObjectScanner::State::open) return false;
    const std::string text = held_.stop_recording();
    std::optional<JsonCall> call;
    if (scanner_.state() == JsonObjectScanner::State::complete) {
      call = read_json_call(std::string_view(text).substr(object_begin_));
    }
    if (call) {
      builder_.begin_call(call->name);
      builder_.arguments(call->arguments.dump_python());
      wrapped_ = true;
      leave_call();
    } else {
      give_up(text);
    }
    return true;
  }

  void begin_function(const NamedTag& tag, bool wrapped) {
    wrapped_ = wrapped;
    reader_.begin(tag.name, wrapped);
    held_.take(tag.end);
    if (!tentative_) {
      space_.clear();
      builder_.begin_call(reader_.function());
    }
    state_ = State::function;
  }

  bool step_function() {
    const FunctionReader::Outcome outcome = reader_.read(held_);
    const bool ended = outcome == FunctionReader::Outcome::ended;
    if (ended && std::exchange(tentative_, false)) {
      held_.stop_recording();
      builder_.begin_call(reader_.function());
    }
    if (!tentative_) builder_.arguments(reader_.take_arguments());
    if (outcome == FunctionReader::Outcome::need_text) return false;
    if (ended) {
      leave_call();
    } else if (tentative_) {
      give_up(held_.stop_recording());
    } else {  // a word of stray text
      space_ = reader_.take_space();
      put_content(held_.take(held_.find("< \t\r\n", held_.at() + 1)));
    }
    return true;
  }

  void leave_call() {
    space_.clear();
    wrapper_open_ = true;
    line_start_ = true;
    state_ = State::after_call;
  }

  // The closing call tag, further functions, or content.
  bool step_after_call() {
    space_ += held_.take_space();
    if (held_.empty()) return false;
    if (wrapper_open_) {
      const Match close = held_.markup().literal(held_.at(), kCallClose);
      if (close == Match::yes) {
        held_.take(held_.at() + kCallClose.size());
        space_.clear();
        wrapper_open_ = false;
        return true;
      }
      const NamedTag tag = wrapped_ ? held_.markup().function(held_.at()) : NamedTag{};
      if (close == Match::unsure || tag.match == Match::unsure) return false;
      if (tag.match == Match::yes) {
        begin_function(tag, true);
        return true;
      }
    }
    state_ = State::content;
    return true;
  }

  // The text held when the token limit strikes may be the beginning of a tag, which is no content.
  void drop_cut_tag() {
    const bool call = held_.rest().starts_with(kCallOpen) || held_.rest().starts_with(kFunctionOpen);
    if (state_ == State::content && call) {
      held_.take_all();
      builder_.discard_space();
    } else if ((state_ == State::function && reader_.between_parameters()) ||
               (state_ == State::after_call && wrapper_open_)) {
      held_.take_all();
    }
  }

  const ToolCatalogue tools_;
  AnswerBuilder builder_;
  FunctionReader reader_;
  State state_;
  HeldText held_;
  bool finished_ = false;
  bool line_start_ = true;     // content begins a line here
  std::string space_;          // white space taken after a call, content if content follows
  bool tentative_ = false;     // in a function outside call tags
  bool wrapped_ = false;       // the last call stands in call tags
  bool wrapper_open_ = false;  // their closing tag may follow
  JsonObjectScanner scanner_;
  std::size_t object_begin_ = 0;  // of the JSON object in the recorded text
};

OutputParser::OutputParser(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
OutputParser::~OutputParser() = default;
OutputParser::OutputParser(OutputParser&&) noexcept = default;

Delta OutputParser::push(std::string_view text) { return impl_->push(text); }
Delta OutputParser::finish(bool by_length) { return impl_->finish(by_length); }
bool OutputParser::stopped() const noexcept { return impl_->stopped(); }
bool OutputParser::in_reasoning() const noexcept { return impl_->in_reasoning(); }
const Answer& OutputParser::answer() const noexcept { return impl_->answer(); }

}  // namespace lily::text
