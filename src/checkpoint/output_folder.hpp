// The folder that a new checkpoint is written into, taken back when writing fails.
#pragma once

#include <cstdint>
#include <filesystem>

namespace lily::checkpoint {

// A half-written checkpoint is of no use and large, so everything in the folder is removed again unless
// keep() is reached.
class OutputFolder {
 public:
  // Makes the folder, or takes an empty one. Throws Error: bad_input (a file, or not empty), device.
  explicit OutputFolder(std::filesystem::path path);
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  // A disk that is too small is better known before minutes of writing. Throws Error(device).
  void require_space(std::uint64_t bytes) const;
  void keep() { kept_ = true; }

 private:
  std::filesystem::path path_;
  bool created_ = false;
  bool kept_ = false;
};

}  // namespace lily::checkpoint
