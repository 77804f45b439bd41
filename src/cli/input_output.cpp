// Standard input and output of the commands over C streams, whose failures carry errno.
#include "cli/input_output.hpp"

#include <fmt/core.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

#include "lily/error.hpp"

namespace lily::cli {
namespace {

std::string read_stream(std::FILE* stream, std::string_view name) {
  std::string text;
  std::array<char, 65536> buffer;
  std::size_t count = 0;
  while ((count = std::fread(buffer.data(), 1, buffer.size(), stream)) > 0) text.append(buffer.data(), count);
  if (std::ferror(stream) != 0) {
    throw Error(ErrorKind::device, fmt::format("cannot read {}: {}", name, std::strerror(errno)));
  }
  return text;
}

[[noreturn]] void throw_output_failed() {
  throw Error(ErrorKind::device, fmt::format("cannot write standard output: {}", std::strerror(errno)));
}

}  // namespace

std::string read_standard_input() { return read_stream(stdin, "standard input"); }

void for_each_input_line(const std::function<void(std::string_view, std::size_t)>& body) {
  std::string line;
  std::size_t number = 0;
  const auto take = [&] {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    body(line, ++number);
    line.clear();
  };
  int character = 0;
  while ((character = std::fgetc(stdin)) != EOF) {
    if (character == '\n') {
      take();
    } else {
      line.push_back(static_cast<char>(character));
    }
  }
  if (std::ferror(stdin) != 0) {
    throw Error(ErrorKind::device, fmt::format("cannot read standard input: {}", std::strerror(errno)));
  }
  if (!line.empty()) take();
}

void write_output(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) throw_output_failed();
}

void flush_output() {
  if (std::fflush(stdout) != 0) throw_output_failed();
}

std::string read_file(const std::filesystem::path& file) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(file.c_str(), "rb"), std::fclose);
  if (!stream) {
    throw Error(errno == ENOENT ? ErrorKind::not_found : ErrorKind::device,
                fmt::format("cannot open {}: {}", file.string(), std::strerror(errno)));
  }
  return read_stream(stream.get(), file.string());
}

Json number_or_null(double value) { return std::isfinite(value) ? Json::real(value) : Json(); }

}  // namespace lily::cli
