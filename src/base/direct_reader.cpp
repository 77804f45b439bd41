// O_DIRECT on Linux: offsets, lengths and addresses are multiples of a block.
#include "base/direct_reader.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "lily/error.hpp"

namespace lily {

DirectReader::DirectReader(const MappedFile& file) : file_(file) {
#if defined(__linux__)
  // Not by its path, which may be another file by now.
  const std::string path = fmt::format("/proc/self/fd/{}", file.descriptor());
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
#endif
}

DirectReader::~DirectReader() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

DirectReader::DirectReader(DirectReader&& other) noexcept
    : file_(other.file_), descriptor_(std::exchange(other.descriptor_, -1)) {}

std::span<const std::byte> DirectReader::read(std::uint64_t offset, std::uint64_t length,
                                              std::span<std::byte> buffer) const {
  if (buffer.size() < buffer_bytes(length)) {
    throw Error(ErrorKind::internal, fmt::format("a buffer of {} bytes for a direct read of {}, {} needed",
                                                 buffer.size(), length, buffer_bytes(length)));
  }
  const auto skipped = static_cast<std::size_t>(offset % kAlignment);
  const std::uint64_t begin = offset - skipped;
  const std::size_t needed = skipped + static_cast<std::size_t>(length);
  const std::size_t whole = (needed + kAlignment - 1) / kAlignment * kAlignment;
  std::size_t done = 0;
  if (descriptor_ >= 0 && !file_.cached(offset, length)) {
    // Ends early at the end of the file, and where a device wants larger blocks.
    while (done < whole && done % kAlignment == 0) {
      const ssize_t count =
          ::pread(descriptor_, buffer.data() + done, whole - done, static_cast<off_t>(begin + done));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;
      done += static_cast<std::size_t>(count);
    }
  }
  // Also says what is wrong with a file or device that cannot be read.
  if (done < needed) file_.read(begin + done, buffer.subspan(done, needed - done));
  return buffer.subspan(skipped, static_cast<std::size_t>(length));
}

}  // namespace lily
