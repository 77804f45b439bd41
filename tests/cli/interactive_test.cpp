// `lily chat` in a terminal: line editing, dimmed reasoning, and Ctrl-C that stops an answer or a line but
// not the program.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <util.h>
#else
#include <pty.h>
#endif

#include <chrono>
#include <csignal>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/fixtures.hpp"

namespace lily::testing {
namespace {

using Clock = std::chrono::steady_clock;

// The program under a terminal of its own; keys go in, the screen's bytes come out.
class Terminal {
 public:
  explicit Terminal(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), LILY_PROGRAM);
    std::vector<char*> argv;
    argv.reserve(arguments.size() + 1);
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    child_ = forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (child_ == 0) {
      setenv("TERM", "xterm", 1);
      execv(argv[0], argv.data());
      _exit(127);
    }
  }
  ~Terminal() {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    close(terminal_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(std::string_view keys) {
    EXPECT_EQ(write(terminal_, keys.data(), keys.size()), ssize_t(keys.size()));
  }

  // Reads until `text` appears after what was waited for before.
  bool shows(std::string_view text) {
    const auto deadline = Clock::now() + std::chrono::seconds(60);
    std::size_t at = 0;
    while ((at = screen_.find(text, seen_)) == screen_.npos) {
      if (!read_some(deadline)) return false;
    }
    seen_ = at + text.size();
    return true;
  }

  // The prompt, and the editor is reading keys: before that the terminal itself would act on them.
  bool asks() {
    if (!shows("> ")) return false;
    for (int tries = 0; tries < 30'000; ++tries) {
      termios settings{};
      if (tcgetattr(terminal_, &settings) == 0 && (settings.c_lflag & ICANON) == 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  }

  // Exit code; 128 + signal.
  int wait() {
    const auto deadline = Clock::now() + std::chrono::seconds(60);
    while (read_some(deadline)) {
    }
    if (Clock::now() >= deadline) kill(child_, SIGKILL);
    int status = 0;
    waitpid(child_, &status, 0);
    child_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  const std::string& screen() const { return screen_; }

 private:
  bool read_some(Clock::time_point deadline) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wanted{terminal_, POLLIN, 0};
    if (left <= 0 || poll(&wanted, 1, static_cast<int>(left)) <= 0) return false;
    char buffer[4096];
    const ssize_t count = read(terminal_, buffer, sizeof buffer);
    if (count <= 0) return false;
    screen_.append(buffer, static_cast<std::size_t>(count));
    return true;
  }

  int terminal_ = -1;
  pid_t child_ = -1;
  std::string screen_;
  std::size_t seen_ = 0;
};

constexpr std::string_view kControlC = "\x03";
constexpr std::string_view kBackspace = "\x7f";
constexpr std::string_view kUp = "\x1b[A";

std::vector<std::string> chat_with_mini() {
  return {"chat", "--model", kMini.string(), "--temperature", "0"};
}

TEST(ChatTerminal, edits_the_line_and_recalls_it) {
  Terminal terminal(chat_with_mini());
  ASSERT_TRUE(terminal.asks()) << terminal.screen();
  terminal.type("Who aro");
  terminal.type(kBackspace);
  terminal.type("e you?\r");
  EXPECT_TRUE(terminal.shows("I am Lily, a small assistant")) << terminal.screen();
  ASSERT_TRUE(terminal.asks()) << terminal.screen();
  terminal.type(kUp);
  terminal.type("\r");
  EXPECT_TRUE(terminal.shows("tok/s")) << terminal.screen();
  ASSERT_TRUE(terminal.asks()) << terminal.screen();
  terminal.type("/quit\r");
  EXPECT_EQ(terminal.wait(), 0);
}

TEST(ChatTerminal, control_c_drops_the_line_and_not_the_program) {
  Terminal terminal(chat_with_mini());
  ASSERT_TRUE(terminal.asks()) << terminal.screen();
  terminal.type("nonsense");
  ASSERT_TRUE(terminal.shows("nonsense")) << terminal.screen();
  terminal.type(kControlC);
  ASSERT_TRUE(terminal.asks()) << terminal.screen();
  terminal.type("Who are you?\r");
  EXPECT_TRUE(terminal.shows("I am Lily, a small assistant")) << terminal.screen();
  ASSERT_TRUE(terminal.asks()) << terminal.screen();
  terminal.type("/quit\r");
  EXPECT_EQ(terminal.wait(), 0);
}

TEST(ChatTerminal, control_c_stops_the_answer_and_not_the_program) {
  // Random weights on the slow backend: the answer has no end of its own that a person would wait for.
  Terminal terminal({"chat", "--model", kTinyQ4.string(), "--backend", "reference", "--temperature", "0"});
  ASSERT_TRUE(terminal.asks()) << terminal.screen();
  terminal.type("Hello\r");
  ASSERT_TRUE(terminal.shows("\x1b[2m")) << "no dimmed reasoning: " << terminal.screen();
  terminal.type(kControlC);
  EXPECT_TRUE(terminal.shows("lily: stopped")) << terminal.screen();
  ASSERT_TRUE(terminal.asks()) << terminal.screen();
  terminal.type("/quit\r");
  EXPECT_EQ(terminal.wait(), 0);
}

TEST(RunTerminal, control_c_ends_the_answer_with_the_status_of_an_interrupt) {
  Terminal terminal({"run", "--model", kTinyQ4.string(), "--backend", "reference", "--temperature", "0",
                     "--stats", "Hello"});
  ASSERT_TRUE(terminal.shows("\x1b[2m")) << "no dimmed reasoning: " << terminal.screen();
  terminal.type(kControlC);
  EXPECT_EQ(terminal.wait(), 130) << terminal.screen();
  EXPECT_TRUE(terminal.shows("\x1b[0m")) << "the terminal is left dimmed: " << terminal.screen();
}

}  // namespace
}  // namespace lily::testing
