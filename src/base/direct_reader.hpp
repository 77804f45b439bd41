// Reads a file past the page cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/mapped_file.hpp"

namespace lily {

// For files that are read once and would push everything else out of the cache: the device writes straight
// into the caller's memory, which takes 0.02 s of processor time per GB where the cache takes 0.5. What the
// cache holds already is taken from there. Without system support (other than Linux, some file systems) all
// reads go through the cache. Thread-safe after construction.
class DirectReader {
 public:
  // Buffers begin at a multiple of this many bytes.
  static constexpr std::size_t kAlignment = 4096;
  // A buffer for `length` bytes at any offset.
  static constexpr std::size_t buffer_bytes(std::uint64_t length) {
    return (static_cast<std::size_t>(length) + 3 * kAlignment - 1) / kAlignment * kAlignment;
  }

  explicit DirectReader(const MappedFile& file);  // which must live as long
  ~DirectReader();
  DirectReader(DirectReader&& other) noexcept;
  DirectReader(const DirectReader&) = delete;
  DirectReader& operator=(const DirectReader&) = delete;
  DirectReader& operator=(DirectReader&&) = delete;

  // Returns where in `buffer` the bytes [offset, offset + length) are. Throws as MappedFile::read does.
  std::span<const std::byte> read(std::uint64_t offset, std::uint64_t length,
                                  std::span<std::byte> buffer) const;

 private:
  const MappedFile& file_;
  int descriptor_ = -1;
};

}  // namespace lily
