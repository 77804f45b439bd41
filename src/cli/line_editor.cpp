// Line editing by libedit.
#include "cli/line_editor.hpp"

#include <histedit.h>

#include <clocale>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>

#include "cli/terminal.hpp"

namespace lily::cli {
namespace {

volatile std::sig_atomic_t line_interrupted = 0;
extern "C" void interrupt_line(int) { line_interrupted = 1; }

// Ctrl-C while a line is edited drops the line. Without SA_RESTART the waiting read returns.
class DropLineOnInterrupt {
 public:
  DropLineOnInterrupt() {
    line_interrupted = 0;
    struct sigaction action {};
    action.sa_handler = interrupt_line;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &previous_);
  }
  ~DropLineOnInterrupt() { sigaction(SIGINT, &previous_, nullptr); }
  DropLineOnInterrupt(const DropLineOnInterrupt&) = delete;
  DropLineOnInterrupt& operator=(const DropLineOnInterrupt&) = delete;

 private:
  struct sigaction previous_ {};
};

// libedit reads characters in the locale's encoding; without a UTF-8 one, accents would arrive as escapes.
void choose_utf8() {
  const char* chosen = std::setlocale(LC_CTYPE, "");
  const std::string_view name = chosen == nullptr ? "" : chosen;
  if (name.find("UTF-8") == name.npos && name.find("utf8") == name.npos) std::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace

struct LineEditor::Terminal {
  explicit Terminal(std::string text) : prompt(std::move(text)) {
    choose_utf8();
    history(past, &event, H_SETSIZE, 1000);
    history(past, &event, H_SETUNIQUE, 1);
    el_set(editor, EL_CLIENTDATA, this);
    el_set(
        editor, EL_PROMPT, +[](EditLine* line) {
          void* self = nullptr;
          el_get(line, EL_CLIENTDATA, &self);
          return static_cast<Terminal*>(self)->prompt.data();
        });
    el_set(editor, EL_EDITOR, "emacs");
    el_set(editor, EL_SIGNAL, 0);
    el_set(editor, EL_HIST, history, past);
    el_set(editor, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  }
  ~Terminal() {
    history_end(past);
    el_end(editor);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  std::string prompt;
  EditLine* editor = el_init("lily", stdin, stdout, stderr);
  History* past = history_init();
  HistEvent event{};
};

LineEditor::LineEditor(std::string prompt) {
  if (input_is_terminal() && output_is_terminal()) terminal_ = std::make_unique<Terminal>(std::move(prompt));
}

LineEditor::~LineEditor() = default;

LineResult LineEditor::read_one(std::string& line) {
  if (!terminal_) return std::getline(std::cin, line) ? LineResult::line : LineResult::end;
  const DropLineOnInterrupt interrupt;
  int count = 0;
  const char* text = el_gets(terminal_->editor, &count);
  if (line_interrupted != 0) {
    el_set(terminal_->editor, EL_REFRESH);
    el_reset(terminal_->editor);
    return LineResult::interrupted;
  }
  if (text == nullptr || count <= 0) return LineResult::end;
  line.assign(text, static_cast<std::size_t>(count));
  if (line.find_first_not_of(" \t\r\n") != line.npos)
    history(terminal_->past, &terminal_->event, H_ENTER, text);
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  return LineResult::line;
}

LineResult LineEditor::read(std::string& line) {
  line.clear();
  std::string part;
  for (;;) {
    const LineResult result = read_one(part);
    if (result != LineResult::line)
      return result == LineResult::end && !line.empty() ? LineResult::line : result;
    if (part.empty() || part.back() != '\\') {
      line += part;
      return LineResult::line;
    }
    part.back() = '\n';
    line += part;
  }
}

}  // namespace lily::cli
