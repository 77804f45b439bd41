// Tensors of a golden file.
#include "engine/golden_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "lily/error.hpp"

namespace lily::engine {
namespace {

bool matches(const std::vector<std::int64_t>& found, const std::vector<std::int64_t>& wanted) {
  return std::equal(found.begin(), found.end(), wanted.begin(), wanted.end(),
                    [](std::int64_t size, std::int64_t want) { return want < 0 || size == want; });
}

template <class Value>
std::vector<Value> copy_values(const MappedFile& file, const checkpoint::StoredTensor& tensor) {
  std::vector<Value> values(static_cast<std::size_t>(tensor.bytes) / sizeof(Value));
  file.read(tensor.offset, std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace

GoldenFile::GoldenFile(const std::filesystem::path& path)
    : file_(path), tensors_(checkpoint::read_safetensors_header(file_)) {}

bool GoldenFile::contains(const std::string& name) const noexcept {
  return std::any_of(tensors_.begin(), tensors_.end(),
                     [&](const auto& tensor) { return tensor.name == name; });
}

const checkpoint::StoredTensor& GoldenFile::find(const std::string& name, const char* dtype,
                                                 const std::vector<std::int64_t>& shape) const {
  const auto found =
      std::find_if(tensors_.begin(), tensors_.end(), [&](const auto& tensor) { return tensor.name == name; });
  if (found == tensors_.end()) {
    throw Error(ErrorKind::bad_input, fmt::format("{}: tensor {} is missing", file_.path().string(), name));
  }
  if (found->dtype != dtype || !matches(found->shape, shape)) {
    throw Error(ErrorKind::bad_input,
                fmt::format("{}: tensor {} is {} {}; needed is {} {} (-1: any)", file_.path().string(), name,
                            found->dtype, checkpoint::shape_text(found->shape), dtype,
                            checkpoint::shape_text(shape)));
  }
  return *found;
}

std::vector<float> GoldenFile::floats(const std::string& name, const std::vector<std::int64_t>& shape) const {
  std::vector<float> values = copy_values<float>(file_, find(name, "F32", shape));
  // The largest error would pass over a NaN, as every comparison does.
  const auto broken =
      std::find_if_not(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
  if (broken != values.end()) {
    throw Error(ErrorKind::bad_input,
                fmt::format("{}: tensor {}: value {} at index {} is not finite", file_.path().string(), name,
                            *broken, broken - values.begin()));
  }
  return values;
}

std::vector<TokenId> GoldenFile::ids(const std::string& name) const {
  std::vector<TokenId> ids = copy_values<TokenId>(file_, find(name, "I32", {-1}));
  if (ids.empty()) {
    throw Error(ErrorKind::bad_input, fmt::format("{}: tensor {} is empty", file_.path().string(), name));
  }
  return ids;
}

}  // namespace lily::engine
