// API keys: file format, allowed characters and a comparison that tells nothing by its time.
#include "serve/api_keys.hpp"

#include <strings.h>

#include <fstream>

#include <fmt/format.h>

#include "lily/error.hpp"

namespace lily::serve {
namespace {

constexpr std::string_view kKeyCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=";

bool well_formed(std::string_view key) {
  return !key.empty() && key.find_first_not_of(kKeyCharacters) == std::string_view::npos;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// Walks the whole of `offered` whatever it finds; only its own length, which its sender knows, shows in the
// time.
bool equal_in_constant_time(std::string_view key, std::string_view offered) {
  std::size_t difference = key.size() ^ offered.size();
  for (std::size_t i = 0; i < offered.size(); ++i) {
    difference |= static_cast<unsigned char>(offered[i]) ^ static_cast<unsigned char>(key[i % key.size()]);
  }
  return difference == 0;
}

std::string_view bearer_token(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size() ||
      strncasecmp(authorization.data(), kScheme.data(), kScheme.size()) != 0) {
    return {};
  }
  return trimmed(authorization.substr(kScheme.size()));
}

}  // namespace

std::vector<std::string> read_api_keys(const std::filesystem::path& file) {
  std::ifstream input(file);
  if (!input)
    throw Error(ErrorKind::not_found, fmt::format("cannot read the API key file {}", file.string()));
  std::vector<std::string> keys;
  std::string line;
  for (int number = 1; std::getline(input, line); ++number) {
    const std::string_view key = trimmed(line);
    if (key.empty() || key.front() == '#') continue;
    if (!well_formed(key)) {
      throw Error(
          ErrorKind::bad_input,
          fmt::format("{}:{}: an API key may hold only letters, digits and -._~+/=", file.string(), number));
    }
    keys.emplace_back(key);
  }
  if (keys.empty()) throw Error(ErrorKind::bad_input, fmt::format("{} holds no API key", file.string()));
  return keys;
}

void check_api_keys(const std::vector<std::string>& keys) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!well_formed(keys[i])) {
      throw Error(
          ErrorKind::bad_input,
          fmt::format("API key {} of {} may hold only letters, digits and -._~+/=", i + 1, keys.size()));
    }
  }
}

bool authorized(const std::vector<std::string>& keys, std::string_view authorization,
                std::string_view x_api_key) {
  const std::string_view bearer = bearer_token(authorization);
  bool found = false;
  for (const std::string& key : keys) {
    found |= equal_in_constant_time(key, bearer);
    found |= equal_in_constant_time(key, x_api_key);
  }
  return found;
}

}  // namespace lily::serve
