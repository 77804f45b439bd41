// Strict reading of safetensors headers: 8 bytes of length, a JSON object, then the data section.
#include "checkpoint/safetensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "lily/error.hpp"

namespace lily::checkpoint {
namespace {

// A header of 128 MiB describes about a million tensors; the real checkpoint's shards need 60 KB each.
constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{128} << 20;
constexpr std::uint64_t kLengthBytes = 8;
constexpr std::size_t kMaxRank = 8;
constexpr std::size_t kMaxNameBytes = 1024;

struct ElementType {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr std::array<ElementType, 15> kElementTypes = {{{"BOOL", 1},
                                                        {"U8", 1},
                                                        {"I8", 1},
                                                        {"F8_E4M3", 1},
                                                        {"F8_E5M2", 1},
                                                        {"U16", 2},
                                                        {"I16", 2},
                                                        {"F16", 2},
                                                        {"BF16", 2},
                                                        {"U32", 4},
                                                        {"I32", 4},
                                                        {"F32", 4},
                                                        {"U64", 8},
                                                        {"I64", 8},
                                                        {"F64", 8}}};

std::optional<std::uint64_t> element_bytes(std::string_view dtype) {
  const auto found = std::find_if(kElementTypes.begin(), kElementTypes.end(),
                                  [&](const ElementType& type) { return type.name == dtype; });
  if (found == kElementTypes.end()) return std::nullopt;
  return found->bytes;
}

// The part of a message that a broken name may fill.
std::string shortened(std::string_view text) {
  constexpr std::size_t kShown = 200;
  return std::string(text.substr(0, kShown)) + (text.size() > kShown ? "..." : "");
}

// Receives the header's JSON events; keeps tensors, refuses everything the format does not have. Events are
// used instead of a tree because a tree loses duplicate keys and costs memory per byte of hostile input.
class HeaderHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  struct Entry {
    StoredTensor tensor;
    std::vector<std::uint64_t> offsets;  // begin and end in the data section
    bool has_dtype = false;
    bool has_shape = false;
  };

  explicit HeaderHandler(std::string file) : file_(std::move(file)) {}

  std::vector<Entry> take_entries() { return std::move(entries_); }

  bool start_object(std::size_t /*size*/) override {
    if (place_ == Place::outside) {
      place_ = Place::header;
    } else if (place_ == Place::header_value) {
      place_ = is_metadata_ ? Place::metadata : Place::tensor;
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool key(std::string& name) override {
    switch (place_) {
      case Place::header:
        begin_entry(name);
        break;
      case Place::tensor:
        begin_field(name);
        break;
      default:  // metadata: names and values are free
        break;
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::tensor) {
      check_complete();
      place_ = Place::header;
    } else if (place_ == Place::metadata) {
      place_ = Place::header;
    } else {
      place_ = Place::outside;
    }
    return true;
  }

  bool start_array(std::size_t /*size*/) override {
    if (in_array_ || (place_ != Place::shape && place_ != Place::offsets)) unexpected("an array");
    in_array_ = true;
    return true;
  }

  bool end_array() override {
    in_array_ = false;
    place_ = Place::tensor;
    return true;
  }

  bool number_unsigned(std::uint64_t value) override {
    if (!in_array_) unexpected("a number");
    if (place_ == Place::shape) {
      add_dimension(value);
    } else {
      add_offset(value);
    }
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Place::dtype) {
      entries_.back().tensor.dtype = value;
      place_ = Place::tensor;
    } else if (place_ != Place::metadata) {
      unexpected("a string");
    }
    return true;
  }

  bool null() override { unexpected("null"); }
  bool boolean(bool /*value*/) override { unexpected("a boolean"); }
  bool number_integer(std::int64_t value) override {
    unexpected(fmt::format("the negative number {}", value));
  }
  bool number_float(double /*value*/, const std::string& text) override {
    unexpected(fmt::format("the number {}", shortened(text)));
  }
  bool binary(binary_t& /*value*/) override { unexpected("binary data"); }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    throw Error(ErrorKind::bad_input,
                fmt::format("{}: the header is not valid JSON at its byte {}; the file is damaged or no "
                            "safetensors file",
                            file_, position));
  }

 private:
  enum class Place { outside, header, header_value, metadata, tensor, dtype, shape, offsets };

  [[noreturn]] void fail(const std::string& message) const {
    const bool in_tensor = !entries_.empty() && !is_metadata_ && place_ >= Place::header_value;
    const std::string where = in_tensor ? "tensor " + entries_.back().tensor.name : "header";
    throw Error(ErrorKind::bad_input, fmt::format("{}: {}: {}", file_, where, message));
  }

  [[noreturn]] void unexpected(const std::string& what) const {
    constexpr std::array<std::string_view, 8> kNeeded = {"the header's object",
                                                         "a tensor",
                                                         "a tensor's object",
                                                         "a string in __metadata__",
                                                         "a tensor's field",
                                                         "a string for dtype",
                                                         "an array of sizes for shape",
                                                         "an array of two numbers for data_offsets"};
    fail(fmt::format("{} found where {} is needed", what, kNeeded[static_cast<std::size_t>(place_)]));
  }

  void begin_entry(const std::string& name) {
    if (name.size() > kMaxNameBytes) {
      fail(fmt::format("a tensor name has {} bytes, at most {} are accepted", name.size(), kMaxNameBytes));
    }
    if (!names_.insert(name).second) fail(fmt::format("{} appears twice in the header", name));
    is_metadata_ = name == "__metadata__";
    place_ = Place::header_value;
    if (!is_metadata_) {
      entries_.emplace_back();
      entries_.back().tensor.name = name;
    }
  }

  void begin_field(const std::string& name) {
    Entry& entry = entries_.back();
    if (name == "dtype" && !std::exchange(entry.has_dtype, true)) {
      place_ = Place::dtype;
    } else if (name == "shape" && !std::exchange(entry.has_shape, true)) {
      place_ = Place::shape;
    } else if (name == "data_offsets" && entry.offsets.empty()) {
      place_ = Place::offsets;
    } else {
      fail(fmt::format("field {} is unknown or repeated; dtype, shape and data_offsets are needed once each",
                       shortened(name)));
    }
  }

  void add_dimension(std::uint64_t value) {
    std::vector<std::int64_t>& shape = entries_.back().tensor.shape;
    if (shape.size() == kMaxRank) fail(fmt::format("shape has more than {} dimensions", kMaxRank));
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      fail(fmt::format("shape has a dimension of {}, which is out of range", value));
    }
    shape.push_back(static_cast<std::int64_t>(value));
  }

  void add_offset(std::uint64_t value) {
    std::vector<std::uint64_t>& offsets = entries_.back().offsets;
    if (offsets.size() == 2) fail("data_offsets has more than two numbers");
    offsets.push_back(value);
  }

  void check_complete() const {
    const Entry& entry = entries_.back();
    if (!entry.has_dtype) fail("dtype is missing");
    if (!entry.has_shape) fail("shape is missing");
    if (entry.offsets.size() != 2) {
      fail(fmt::format("data_offsets has {} numbers, two are needed", entry.offsets.size()));
    }
  }

  std::string file_;
  Place place_ = Place::outside;
  bool is_metadata_ = false;
  bool in_array_ = false;
  std::unordered_set<std::string> names_;
  std::vector<Entry> entries_;
};

[[noreturn]] void fail_tensor(const MappedFile& file, const StoredTensor& tensor,
                              const std::string& message) {
  throw Error(ErrorKind::bad_input,
              fmt::format("{}: tensor {}: {}", file.path().string(), tensor.name, message));
}

// Bytes that dtype and shape ask for; refuses what does not fit 64 bits.
std::uint64_t needed_bytes(const MappedFile& file, const StoredTensor& tensor) {
  const std::optional<std::uint64_t> element = element_bytes(tensor.dtype);
  if (!element) fail_tensor(file, tensor, fmt::format("dtype {} is unknown", shortened(tensor.dtype)));
  std::uint64_t bytes = *element;
  for (const std::int64_t size : tensor.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes)) {
      fail_tensor(file, tensor, fmt::format("shape {} is too large to address", shape_text(tensor.shape)));
    }
  }
  return bytes;
}

// The data section must be covered exactly: a gap or an overlap means that header and data do not belong
// together.
void check_tiling(const MappedFile& file, const std::vector<StoredTensor>& tensors,
                  std::uint64_t data_begin) {
  std::uint64_t position = data_begin;
  for (const StoredTensor& tensor : tensors) {
    if (tensor.offset != position) {
      fail_tensor(file, tensor,
                  fmt::format("data_offsets begin at {}, but the tensors before it end at {}",
                              tensor.offset - data_begin, position - data_begin));
    }
    position += tensor.bytes;
  }
  if (position != file.size()) {
    throw Error(ErrorKind::bad_input, fmt::format("{}: holds {} bytes, its tensors end at {}",
                                                  file.path().string(), file.size(), position));
  }
}

std::uint64_t header_length(const MappedFile& file) {
  const std::string path = file.path().string();
  if (file.size() < kLengthBytes) {
    throw Error(ErrorKind::bad_input,
                fmt::format("{}: has {} bytes, a safetensors file has at least {}; the file is truncated "
                            "(incomplete download)",
                            path, file.size(), kLengthBytes));
  }
  std::array<std::byte, kLengthBytes> raw;
  file.read(0, raw);
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;)
    length = (length << 8) | std::to_integer<std::uint64_t>(raw[i]);
  if (length > kMaxHeaderBytes) {
    throw Error(
        ErrorKind::bad_input,
        fmt::format("{}: states a header of {} bytes, at most {} are accepted; this is no safetensors "
                    "file",
                    path, length, kMaxHeaderBytes));
  }
  if (length > file.size() - kLengthBytes) {
    throw Error(ErrorKind::bad_input,
                fmt::format("{}: states a header of {} bytes but has only {} bytes in all; the file is "
                            "truncated (incomplete download)",
                            path, length, file.size()));
  }
  return length;
}

}  // namespace

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

std::vector<StoredTensor> read_safetensors_header(const MappedFile& file) {
  const std::uint64_t length = header_length(file);
  std::string text(static_cast<std::size_t>(length), '\0');
  file.read(kLengthBytes, std::as_writable_bytes(std::span(text)));

  HeaderHandler handler(file.path().string());
  nlohmann::json::sax_parse(text, &handler);

  const std::uint64_t data_begin = kLengthBytes + length;
  const std::uint64_t data_bytes = file.size() - data_begin;
  std::vector<StoredTensor> tensors;
  for (HeaderHandler::Entry& entry : handler.take_entries()) {
    StoredTensor& tensor = entry.tensor;
    const std::uint64_t begin = entry.offsets[0];
    const std::uint64_t end = entry.offsets[1];
    if (begin > end)
      fail_tensor(file, tensor, fmt::format("data_offsets [{}, {}] run backwards", begin, end));
    const std::uint64_t needed = needed_bytes(file, tensor);
    if (end - begin != needed) {
      fail_tensor(file, tensor,
                  fmt::format("dtype {} with shape {} needs {} bytes, data_offsets [{}, {}] give {}",
                              tensor.dtype, shape_text(tensor.shape), needed, begin, end, end - begin));
    }
    if (end > data_bytes) {
      fail_tensor(
          file, tensor,
          fmt::format("data_offsets [{}, {}] end beyond the {} bytes of data in the file; the file is "
                      "truncated (incomplete download)",
                      begin, end, data_bytes));
    }
    tensor.offset = data_begin + begin;
    tensor.bytes = needed;
    tensors.push_back(std::move(tensor));
  }
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  check_tiling(file, tensors, data_begin);
  return tensors;
}

}  // namespace lily::checkpoint
