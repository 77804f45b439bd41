// Tensors of a golden file: the stored answers of a reference implementation, in safetensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/mapped_file.hpp"
#include "checkpoint/safetensors.hpp"
#include "lily/text.hpp"

namespace lily::engine {

class GoldenFile {
 public:
  // Throws Error: not_found, bad_input.
  explicit GoldenFile(const std::filesystem::path& path);

  bool contains(const std::string& name) const noexcept;

  // The values of an F32 or I32 tensor of this shape; -1 leaves a dimension open. Throws Error(bad_input)
  // naming the tensor when it is absent or different, or holds a number that is not finite.
  std::vector<float> floats(const std::string& name, const std::vector<std::int64_t>& shape) const;
  std::vector<TokenId> ids(const std::string& name) const;  // at least one

 private:
  const checkpoint::StoredTensor& find(const std::string& name, const char* dtype,
                                       const std::vector<std::int64_t>& shape) const;

  MappedFile file_;
  std::vector<checkpoint::StoredTensor> tensors_;
};

}  // namespace lily::engine
