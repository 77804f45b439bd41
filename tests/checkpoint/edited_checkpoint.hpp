// A small checkpoint held in memory, so that tests can change it and write it out again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lily/json.hpp"

namespace lily::testing {

// A fresh folder, removed with everything in it at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::string read_file(const std::filesystem::path& path);
void write_file(const std::filesystem::path& path, std::string_view text);

struct EditedTensor {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string data;
};

// The bytes of a safetensors file: `header` with its length before it, then `data`.
std::string safetensors_bytes(std::string_view header, std::string_view data);

struct EditedCheckpoint {
  std::map<std::string, EditedTensor> tensors;
  std::map<std::string, int> shard_of;  // 1 when absent
  Json config;

  // Reads a valid checkpoint folder by its own small reader.
  static EditedCheckpoint load(const std::filesystem::path& folder);
  // Writes shards, index and config.json. A tensor listed in `map_patch` gets that file in weight_map.
  void save(const std::filesystem::path& folder, int shards = 2,
            const std::map<std::string, std::string>& map_patch = {}) const;

  std::vector<float> values(const std::string& name) const;
  void set_values(const std::string& name, const std::vector<float>& values);
  // Sets a member of config.json by a dotted path, such as "text_config.num_experts_per_tok".
  void patch_config(const std::string& dotted_path, const Json& value);
};

// what() of the Error that opening the folder throws; empty when it opens.
std::string open_error(const std::filesystem::path& folder);

}  // namespace lily::testing
