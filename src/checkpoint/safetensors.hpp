// The header of one safetensors file, read as untrusted input.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/mapped_file.hpp"

namespace lily::checkpoint {

struct StoredTensor {
  std::string name;
  std::string dtype;  // as spelled in the file: "BF16", "U32", ...
  std::vector<std::int64_t> shape;
  std::uint64_t offset = 0;  // from the beginning of the file
  std::uint64_t bytes = 0;
};

// Proves that the header is complete, that every tensor's bytes follow from its dtype and shape, and that the
// tensors tile the data section without gap or overlap. Returns them in file order. Throws Error(bad_input)
// naming the file, the tensor, the value and the limit.
std::vector<StoredTensor> read_safetensors_header(const MappedFile& file);

// "[512, 256]", for messages.
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace lily::checkpoint
