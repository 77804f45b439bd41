// POSIX writing: open, pwrite, fsync, rename.
#include "checkpoint/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lily/error.hpp"

namespace lily::checkpoint {
namespace {

// macOS refuses single writes of 2 GiB and more.
constexpr std::size_t kLongestWrite = std::size_t{1} << 30;

}  // namespace

OutputFile::OutputFile(std::filesystem::path path) : path_(std::move(path)), partial_(path_) {
  partial_ += ".partial";
  descriptor_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail("create", errno);
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(partial_.c_str());
}

void OutputFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  // Linux lets one writer into a file at a time and lets the others spin; waiting here leaves them the
  // processor.
  const std::lock_guard lock(mutex_);
  while (!bytes.empty()) {
    const std::size_t length = std::min(bytes.size(), kLongestWrite);
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), length, static_cast<off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) continue;
      fail("write", errno);
    }
    offset += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void OutputFile::finish() {
  if (::fsync(descriptor_) != 0) fail("write", errno);
  if (::rename(partial_.c_str(), path_.c_str()) != 0) fail("rename", errno);
  ::close(std::exchange(descriptor_, -1));
}

void OutputFile::fail(const char* action, int code) const {
  throw Error(ErrorKind::device,
              fmt::format("{}: cannot {}: {}", partial_.string(), action, std::strerror(code)));
}

void write_text_file(const std::filesystem::path& path, std::string_view text) {
  OutputFile file(path);
  file.write(0, std::as_bytes(std::span(text)));
  file.finish();
}

}  // namespace lily::checkpoint
