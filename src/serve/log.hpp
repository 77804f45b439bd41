// The server's log: lines over spdlog without its header, which costs two to three seconds per file.
#pragma once

#include <string>

namespace lily::serve {

// Time, level and line on standard error, so that standard output stays free for scripts.
void log_to_standard_error();

void log_information(const std::string& line);
void log_warning(const std::string& line);
void log_error(const std::string& line);

}  // namespace lily::serve
