// The server's log over spdlog.
#include "serve/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace lily::serve {

void log_to_standard_error() {
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("lily", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
}

void log_information(const std::string& line) { spdlog::info(line); }
void log_warning(const std::string& line) { spdlog::warn(line); }
void log_error(const std::string& line) { spdlog::error(line); }

}  // namespace lily::serve
