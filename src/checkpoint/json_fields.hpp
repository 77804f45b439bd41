// Reading members of a JSON configuration file by their full path, with messages that name file and field.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "lily/json.hpp"

namespace lily::checkpoint {

// A view of one object of the file. A member that is null counts as absent, as configuration writers use it.
class JsonFields {
 public:
  // `path` is the object's own path inside the file; empty for the root.
  JsonFields(const Json& object, std::string file, std::string path);

  const Json* find(std::string_view name) const;
  // The member as an object of its own; nothing when absent.
  std::optional<JsonFields> object(std::string_view name) const;

  std::int64_t integer(std::string_view name, std::int64_t low, std::int64_t high) const;
  std::optional<std::int64_t> optional_integer(std::string_view name, std::int64_t low,
                                               std::int64_t high) const;
  std::optional<double> optional_number(std::string_view name, double low, double high) const;
  std::optional<bool> optional_boolean(std::string_view name) const;
  std::string string(std::string_view name) const;
  std::optional<std::string> optional_string(std::string_view name) const;

  // "config.json: text_config.hidden_size"
  std::string place(std::string_view name) const;
  const Json& value() const { return object_; }
  const std::string& file() const { return file_; }

  // Throws Error(bad_input) about a member.
  [[noreturn]] void fail(std::string_view name, const std::string& message) const;
  [[noreturn]] void fail_missing(std::string_view name) const;

 private:
  const Json& object_;
  std::string file_;
  std::string path_;
};

// Parses a JSON file. Throws Error naming the file.
Json read_json_file(const std::filesystem::path& path, std::uint64_t max_bytes);

// A value as a message shows it: its JSON text, cut after 200 bytes.
std::string shown(const Json& value);

}  // namespace lily::checkpoint
