// A file that appears under its name only when it is complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <span>
#include <string_view>

namespace lily::checkpoint {

// Writes to "<name>.partial", which is removed unless finish() is reached. All errors are Error(device)
// naming the file and the system's reason, such as a full disk.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // Any thread; ranges must not overlap.
  void write(std::uint64_t offset, std::span<const std::byte> bytes);
  // Syncs to disk and gives the file its name.
  void finish();

 private:
  [[noreturn]] void fail(const char* action, int code) const;

  std::filesystem::path path_;
  std::filesystem::path partial_;
  int descriptor_ = -1;
  std::mutex mutex_;
};

void write_text_file(const std::filesystem::path& path, std::string_view text);

}  // namespace lily::checkpoint
