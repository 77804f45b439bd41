// Standard input and output of the commands, with every failure reported.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "lily/json.hpp"

namespace lily::cli {

// Throw Error(device) when reading or writing fails, such as on a full disk or a closed pipe.
std::string read_standard_input();
void for_each_input_line(const std::function<void(std::string_view line, std::size_t number)>& body);
void write_output(std::string_view text);
void flush_output();

// Throws Error(not_found | device) naming the file.
std::string read_file(const std::filesystem::path& file);

// JSON has no NaN and no infinity.
Json number_or_null(double value);

}  // namespace lily::cli
