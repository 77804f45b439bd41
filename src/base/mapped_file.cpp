// POSIX files: open, fstat, mmap, pread; the same on Linux and macOS.
#include "base/mapped_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "lily/error.hpp"

namespace lily {
namespace {

// macOS refuses single reads of 2 GiB and more.
constexpr std::size_t kLongestRead = std::size_t{1} << 30;

[[noreturn]] void throw_system_error(const std::filesystem::path& path, const char* action, int code) {
  const ErrorKind kind = code == ENOENT || code == ENOTDIR ? ErrorKind::not_found : ErrorKind::device;
  throw Error(kind, fmt::format("{}: cannot {}: {}", path.string(), action, std::strerror(code)));
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  // O_NONBLOCK: opening a pipe by mistake must not wait for its writer.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) throw_system_error(path, "open", errno);
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) {
    const int code = errno;
    close();
    throw_system_error(path, "examine", code);
  }
  if (!S_ISREG(status.st_mode)) {
    close();
    throw Error(ErrorKind::bad_input, fmt::format("{}: is not a regular file", path.string()));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
  if (size_ == 0) return;  // an empty range cannot be mapped
  void* const mapping =
      ::mmap(nullptr, static_cast<std::size_t>(size_), PROT_READ, MAP_SHARED, descriptor_, 0);
  if (mapping == MAP_FAILED) {
    const int code = errno;
    close();
    throw_system_error(path, "map", code);
  }
  data_ = static_cast<const std::byte*>(mapping);
}

MappedFile::~MappedFile() { close(); }

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(std::exchange(other.size_, 0)),
      data_(std::exchange(other.data_, nullptr)) {}

void MappedFile::close() noexcept {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), static_cast<std::size_t>(size_));
  if (descriptor_ >= 0) ::close(descriptor_);
  data_ = nullptr;
  descriptor_ = -1;
}

void MappedFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const std::size_t length = std::min(out.size(), kLongestRead);
    const ssize_t count = ::pread(descriptor_, out.data(), length, static_cast<off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) continue;
      throw Error(ErrorKind::device, fmt::format("{}: cannot read {} bytes at offset {}: {}", path_.string(),
                                                 length, offset, std::strerror(errno)));
    }
    if (count == 0) {
      throw Error(ErrorKind::device, fmt::format("{}: ends at offset {}, {} more bytes were needed; the file "
                                                 "had {} bytes when it was opened",
                                                 path_.string(), offset, out.size(), size_));
    }
    offset += static_cast<std::uint64_t>(count);
    out = out.subspan(static_cast<std::size_t>(count));
  }
}

bool MappedFile::cached(std::uint64_t offset, std::uint64_t length) const {
  if (offset >= size_ || length == 0) return true;
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = offset / page * page, end = std::min(size_, offset + length);
#if defined(__linux__)
  std::vector<unsigned char> resident(static_cast<std::size_t>((end - begin + page - 1) / page));
#else
  std::vector<char> resident(static_cast<std::size_t>((end - begin + page - 1) / page));
#endif
  auto* const address = const_cast<std::byte*>(data_) + begin;
  if (::mincore(address, static_cast<std::size_t>(end - begin), resident.data()) != 0) return true;
  return std::all_of(resident.begin(), resident.end(), [](auto state) { return (state & 1) != 0; });
}

void MappedFile::forget(std::uint64_t offset, std::uint64_t length) const noexcept {
#if defined(POSIX_FADV_DONTNEED)
  ::posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(length), POSIX_FADV_DONTNEED);
#else
  static_cast<void>(offset);
  static_cast<void>(length);
#endif
}

std::string read_text_file(const std::filesystem::path& path, std::uint64_t max_bytes) {
  const MappedFile file(path);
  if (file.size() > max_bytes) {
    throw Error(ErrorKind::bad_input, fmt::format("{}: has {} bytes, at most {} are accepted", path.string(),
                                                  file.size(), max_bytes));
  }
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace lily
