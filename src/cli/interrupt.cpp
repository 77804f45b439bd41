// SIGINT turned into a stop request. A handler may do almost nothing, so it sets a flag that a thread
// watches.
#include "cli/interrupt.hpp"

#include <chrono>
#include <csignal>
#include <utility>

#include "lily/error.hpp"

namespace lily::cli {
namespace {

volatile std::sig_atomic_t interrupt_count = 0;
struct sigaction previous_action;

extern "C" void count_interrupt(int) { interrupt_count = interrupt_count + 1; }

}  // namespace

InterruptScope::InterruptScope() {
  interrupt_count = 0;
  struct sigaction action {};
  action.sa_handler = count_interrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous_action);
  watcher_ = std::jthread([source = source_](const std::stop_token& done) mutable {
    while (!done.stop_requested() && interrupt_count == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (interrupt_count != 0) source.request_stop();
  });
}

InterruptScope::~InterruptScope() {
  watcher_.request_stop();
  watcher_.join();
  sigaction(SIGINT, &previous_action, nullptr);
}

bool InterruptScope::interrupted() const { return interrupt_count != 0; }

Progress until_stopped(Progress shown, std::stop_token stop) {
  return [shown = std::move(shown), stop = std::move(stop)](std::string_view work, std::uint64_t done,
                                                            std::uint64_t total, std::string_view unit) {
    if (stop.stop_requested()) throw Error(ErrorKind::cancelled, "interrupted");
    if (shown) shown(work, done, total, unit);
  };
}

}  // namespace lily::cli
