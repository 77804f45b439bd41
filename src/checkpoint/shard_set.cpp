// Finding the shards of a checkpoint and proving the index against them.
#include "checkpoint/shard_set.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "checkpoint/json_fields.hpp"
#include "checkpoint/tensor_names.hpp"
#include "lily/error.hpp"
#include "model/tensors.hpp"

namespace lily::checkpoint {
namespace {

constexpr std::uint64_t kMaxIndexBytes = std::uint64_t{64} << 20;
constexpr std::size_t kMaxShards = 1024;

using WeightMap = std::map<std::string, std::string>;  // tensor name -> file name

WeightMap read_weight_map(const std::filesystem::path& path) {
  const Json json = read_json_file(path, kMaxIndexBytes);
  const JsonFields root(json, path.string(), "");
  const std::optional<JsonFields> map = root.object("weight_map");
  if (!map) root.fail_missing("weight_map");
  WeightMap weight_map;
  for (const auto& [tensor, file] : map->value().as_object()) {
    // A name that leaves the folder would read files the user did not point at.
    const bool plain = file.is_string() && file.as_string().ends_with(".safetensors") &&
                       file.as_string().find_first_of("/\\") == std::string::npos;
    if (!plain) {
      map->fail(tensor, fmt::format("is {}, the name of a .safetensors file in the same folder is needed",
                                    shown(file)));
    }
    weight_map.emplace(tensor, file.as_string());
  }
  if (weight_map.empty()) root.fail("weight_map", "is empty");
  return weight_map;
}

// All files the index names; a list of the missing ones is what a user with a broken download needs.
std::set<std::string> present_shards(const std::filesystem::path& folder, const WeightMap& weight_map) {
  std::set<std::string> names;
  for (const auto& [tensor, file] : weight_map) names.insert(file);
  if (names.size() > kMaxShards) {
    throw Error(ErrorKind::bad_input, fmt::format("{}: weight_map names {} shards, at most {} are accepted",
                                                  folder.string(), names.size(), kMaxShards));
  }
  std::vector<std::string> missing;
  std::error_code code;
  std::copy_if(names.begin(), names.end(), std::back_inserter(missing),
               [&](const std::string& name) { return !std::filesystem::exists(folder / name, code); });
  if (!missing.empty()) {
    throw Error(ErrorKind::not_found,
                fmt::format("{}: incomplete download: {} of {} shards named in weight_map are missing: {}",
                            folder.string(), missing.size(), names.size(), fmt::join(missing, ", ")));
  }
  return names;
}

}  // namespace

ShardSet ShardSet::open(const std::filesystem::path& folder) {
  ShardSet set;
  const std::filesystem::path index = folder / "model.safetensors.index.json";
  const std::filesystem::path single = folder / "model.safetensors";
  std::error_code code;
  if (!std::filesystem::exists(index, code)) {
    if (!std::filesystem::exists(single, code)) {
      throw Error(
          ErrorKind::not_found,
          fmt::format("{}: has neither model.safetensors nor model.safetensors.index.json; incomplete "
                      "download or no safetensors checkpoint",
                      folder.string()));
    }
    set.add_file(single, nullptr);
    return set;
  }

  const WeightMap weight_map = read_weight_map(index);
  for (const std::string& name : present_shards(folder, weight_map)) set.add_file(folder / name, &weight_map);
  for (const auto& [tensor, file] : weight_map) {
    if (!model::is_ignored_tensor(tensor) && !set.tensors_.contains(canonical_name(tensor))) {
      throw Error(
          ErrorKind::bad_input,
          fmt::format("{}: weight_map puts {} into {}, which does not hold it; index and shards are from "
                      "different downloads, or the download is incomplete",
                      index.string(), tensor, file));
    }
  }
  return set;
}

void ShardSet::add_file(const std::filesystem::path& path, const WeightMap* weight_map) {
  const MappedFile& file = files_.emplace_back(path);
  const int shard = static_cast<int>(files_.size()) - 1;
  for (StoredTensor& tensor : read_safetensors_header(file)) {
    if (model::is_ignored_tensor(tensor.name)) {
      ++skipped_;
      continue;
    }
    if (weight_map != nullptr) {
      const auto mapped = weight_map->find(tensor.name);
      if (mapped == weight_map->end() || mapped->second != path.filename()) {
        throw Error(
            ErrorKind::bad_input,
            fmt::format("{}: holds {}, which weight_map {}; index and shards are from different downloads",
                        path.string(), tensor.name,
                        mapped == weight_map->end() ? "does not list" : "puts into " + mapped->second));
      }
    }
    add_tensor(std::move(tensor), shard);
  }
}

void ShardSet::add_tensor(StoredTensor tensor, int shard) {
  const std::string key = canonical_name(tensor.name);
  const auto found = tensors_.find(key);
  if (found != tensors_.end()) {
    throw Error(
        ErrorKind::bad_input,
        fmt::format("{}: tensor {} is there twice, also as {} in {}",
                    files_[static_cast<std::size_t>(shard)].path().string(), tensor.name,
                    found->second.stored.name,
                    files_[static_cast<std::size_t>(found->second.shard)].path().filename().string()));
  }
  tensors_.emplace(key, LocatedTensor{std::move(tensor), shard});
}

}  // namespace lily::checkpoint
