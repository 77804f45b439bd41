// Reading and writing safetensors without the code under test.
#include "checkpoint/edited_checkpoint.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/bf16.hpp"
#include "checkpoint/checkpoint.hpp"
#include "lily/error.hpp"

namespace lily::testing {
namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  std::string name = (fs::temp_directory_path() / "lily-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a temporary folder");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code code;
  fs::remove_all(path_, code);
}

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const fs::path& path, std::string_view text) {
  // A new file instead of a truncated one: ext4 flushes the latter to disk when it is closed.
  fs::remove(path);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file) throw std::runtime_error("cannot write " + path.string());
}

std::string safetensors_bytes(std::string_view header, std::string_view data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>((header.size() >> (8 * i)) & 0xffU);
  return bytes.append(header).append(data);
}

EditedCheckpoint EditedCheckpoint::load(const fs::path& folder) {
  EditedCheckpoint checkpoint;
  checkpoint.config = Json::parse(read_file(folder / "config.json"));
  int shard = 0;
  std::set<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") files.insert(entry.path());
  }
  for (const fs::path& path : files) {
    ++shard;
    const std::string bytes = read_file(path);
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    const Json header = Json::parse(std::string_view(bytes).substr(8, length));
    for (const auto& [name, entry] : header.as_object()) {
      if (name == "__metadata__") continue;
      EditedTensor tensor{entry.find("dtype")->as_string(), {}, {}};
      for (const Json& size : entry.find("shape")->as_array()) tensor.shape.push_back(*size.as_integer());
      const auto begin = static_cast<std::size_t>(*entry.find("data_offsets")->as_array()[0].as_integer());
      const auto end = static_cast<std::size_t>(*entry.find("data_offsets")->as_array()[1].as_integer());
      tensor.data = bytes.substr(8 + length + begin, end - begin);
      checkpoint.tensors.emplace(name, std::move(tensor));
      checkpoint.shard_of[name] = shard;
    }
  }
  return checkpoint;
}

void EditedCheckpoint::save(const fs::path& folder, int shards,
                            const std::map<std::string, std::string>& map_patch) const {
  write_file(folder / "config.json", config.dump());
  Json weight_map = Json::object();
  for (int shard = 1; shard <= shards; ++shard) {
    const std::string file =
        shards == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", shard, shards);
    Json header = Json::object();
    std::string data;
    for (const auto& [name, tensor] : tensors) {
      const auto found = shard_of.find(name);
      const int home = shards == 1 || found == shard_of.end() ? 1 : found->second;
      if (home != shard) continue;
      Json shape = Json::array();
      for (const std::int64_t size : tensor.shape) shape.as_array().push_back(Json::integer(size));
      const auto begin = static_cast<std::int64_t>(data.size());
      data += tensor.data;
      header.set(name,
                 Json::object({{"dtype", Json::string(tensor.dtype)},
                               {"shape", std::move(shape)},
                               {"data_offsets",
                                Json::array({Json::integer(begin),
                                             Json::integer(static_cast<std::int64_t>(data.size()))})}}));
      const auto patch = map_patch.find(name);
      weight_map.set(name, Json::string(patch == map_patch.end() ? file : patch->second));
    }
    write_file(folder / file, safetensors_bytes(header.dump(), data));
  }
  if (shards == 1) return;
  write_file(folder / "model.safetensors.index.json",
             Json::object({{"weight_map", std::move(weight_map)}}).dump());
}

std::vector<float> EditedCheckpoint::values(const std::string& name) const {
  const EditedTensor& tensor = tensors.at(name);
  if (tensor.dtype != "BF16") throw std::runtime_error(name + " is not BF16");
  std::vector<float> values;
  for (std::size_t i = 0; i < tensor.data.size(); i += 2) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, tensor.data.data() + i, 2);
    values.push_back(bf16_to_float(bits));
  }
  return values;
}

void EditedCheckpoint::set_values(const std::string& name, const std::vector<float>& values) {
  EditedTensor& tensor = tensors.at(name);
  tensor.dtype = "BF16";
  tensor.data.clear();
  for (const float value : values) {
    const std::uint16_t bits = float_to_bf16(value);
    tensor.data.append(reinterpret_cast<const char*>(&bits), 2);
  }
}

namespace {

void patch(Json& object, std::string_view path, const Json& value) {
  const std::size_t dot = path.find('.');
  if (dot == std::string_view::npos) {
    object.set(std::string(path), value);
    return;
  }
  for (auto& [name, member] : object.as_object()) {
    if (name == path.substr(0, dot)) return patch(member, path.substr(dot + 1), value);
  }
  throw std::runtime_error("config.json has no " + std::string(path));
}

}  // namespace

void EditedCheckpoint::patch_config(const std::string& dotted_path, const Json& value) {
  patch(config, dotted_path, value);
}

std::string open_error(const fs::path& folder) {
  try {
    checkpoint::Checkpoint::open(folder);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace lily::testing
