// A read-only file: mapped for those who look around in it, and read with pread by those who copy it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace lily {

// Pages come from the page cache. If another program shrinks the file, touching bytes() beyond its new end
// kills the process (SIGBUS); read() throws instead. Thread-safe after construction.
class MappedFile {
 public:
  // Throws Error: not_found; bad_input when it is no regular file; device when the system refuses.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  MappedFile& operator=(MappedFile&&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  std::uint64_t size() const noexcept { return size_; }
  std::span<const std::byte> bytes() const noexcept { return {data_, static_cast<std::size_t>(size_)}; }

  int descriptor() const noexcept { return descriptor_; }

  // Fills `out` from `offset` on. Throws Error(device) naming the file when it ends early or cannot be read.
  void read(std::uint64_t offset, std::span<std::byte> out) const;

  // Whether all of these bytes are in the page cache; also true where the system does not tell, as Linux does
  // not when the user may not write the file.
  bool cached(std::uint64_t offset, std::uint64_t length) const;

  // Tells the system that these bytes will not be read again, so that its page cache lets go of them. A hint:
  // nothing happens where it has no such call.
  void forget(std::uint64_t offset, std::uint64_t length) const noexcept;

 private:
  void close() noexcept;

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  const std::byte* data_ = nullptr;
};

// The whole text of a small file. Throws as MappedFile does, and Error(bad_input) beyond `max_bytes`.
std::string read_text_file(const std::filesystem::path& path, std::uint64_t max_bytes);

}  // namespace lily
