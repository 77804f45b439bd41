// The safetensors files of a checkpoint folder and every tensor in them, under canonical names.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/mapped_file.hpp"
#include "checkpoint/safetensors.hpp"

namespace lily::checkpoint {

struct LocatedTensor {
  StoredTensor stored;  // under the name that the file spells
  int shard = 0;
};

class ShardSet {
 public:
  // Opens model.safetensors, or all shards that model.safetensors.index.json names; proves that every tensor
  // is in the shard the index says and in no other. Throws Error naming what is missing or misplaced.
  static ShardSet open(const std::filesystem::path& folder);

  const std::vector<MappedFile>& files() const { return files_; }
  // By canonical name; vision and MTP tensors are only counted.
  const std::map<std::string, LocatedTensor>& tensors() const { return tensors_; }
  int skipped() const { return skipped_; }

 private:
  ShardSet() = default;
  void add_file(const std::filesystem::path& path, const std::map<std::string, std::string>* weight_map);
  void add_tensor(StoredTensor tensor, int shard);

  std::vector<MappedFile> files_;
  std::map<std::string, LocatedTensor> tensors_;
  int skipped_ = 0;
};

}  // namespace lily::checkpoint
