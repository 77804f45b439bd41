// The progress bar's drawing: at most ten times a second, removed at the end.
#include "cli/progress_bar.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "cli/terminal.hpp"

namespace lily::cli {
namespace {

using Clock = std::chrono::steady_clock;

std::string amount(std::uint64_t value, std::string_view unit) {
  if (unit != "bytes") return fmt::format("{} {}", value, unit);
  return value < 1'000'000'000 ? fmt::format("{:.1f} MB", static_cast<double>(value) * 1e-6)
                               : fmt::format("{:.2f} GB", static_cast<double>(value) * 1e-9);
}

class Bar {
 public:
  explicit Bar(Clock::duration delay) : delay_(delay) {}
  Bar(const Bar&) = delete;
  Bar& operator=(const Bar&) = delete;
  ~Bar() { erase(); }

  void update(std::string_view work, std::uint64_t done, std::uint64_t total, std::string_view unit) {
    const auto now = Clock::now();
    if (work != work_) {
      work_ = work;
      begin_ = now;
      drawn_ = {};
    }
    if (done >= total) {
      erase();
      work_.clear();  // the same work may begin again, such as the next prompt's prefill
    } else if (now - begin_ >= delay_ && now - drawn_ >= std::chrono::milliseconds(100)) {
      drawn_ = now;
      draw(done, total, unit);
    }
  }

 private:
  void draw(std::uint64_t done, std::uint64_t total, std::string_view unit) {
    constexpr std::uint64_t kWidth = 30;
    const auto filled = static_cast<std::size_t>(static_cast<double>(kWidth) * static_cast<double>(done) /
                                                 static_cast<double>(total));
    const std::string bar = std::string(filled, '#') + std::string(kWidth - filled, '.');
    fmt::print(stderr, "\r\x1b[K{} [{}] {} of {}", work_, bar, amount(done, unit), amount(total, unit));
    std::fflush(stderr);
    visible_ = true;
  }

  void erase() {
    if (!visible_) return;
    fmt::print(stderr, "\r\x1b[K");
    std::fflush(stderr);
    visible_ = false;
  }

  Clock::duration delay_;
  std::string work_;
  Clock::time_point begin_;
  Clock::time_point drawn_;
  bool visible_ = false;
};

}  // namespace

Progress progress_bar() {
  if (!error_is_terminal()) return {};
  return [bar = std::make_shared<Bar>(std::chrono::milliseconds(200))](
             std::string_view work, std::uint64_t done, std::uint64_t total, std::string_view unit) {
    bar->update(work, done, total, unit);
  };
}

std::function<void(int, int)> prefill_bar() {
  if (!error_is_terminal()) return {};
  return [bar = std::make_shared<Bar>(std::chrono::milliseconds(500))](int done, int total) {
    bar->update("reading the prompt", static_cast<std::uint64_t>(std::max(done, 0)),
                static_cast<std::uint64_t>(std::max(total, 0)), "tokens");
  };
}

}  // namespace lily::cli
