// Taking and giving back the output folder.
#include "checkpoint/output_folder.hpp"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "lily/error.hpp"

namespace lily::checkpoint {

namespace fs = std::filesystem;

OutputFolder::OutputFolder(fs::path path) : path_(std::move(path)) {
  std::error_code code;
  if (fs::exists(path_, code)) {
    if (!fs::is_directory(path_, code)) {
      throw Error(ErrorKind::bad_input,
                  fmt::format("{}: is a file, a new or empty folder is needed", path_.string()));
    }
    if (!fs::is_empty(path_, code)) {
      throw Error(ErrorKind::bad_input,
                  fmt::format("{}: is not empty, a new or empty folder is needed", path_.string()));
    }
  } else {
    fs::create_directories(path_, code);
    created_ = !code;
  }
  if (code) {
    throw Error(ErrorKind::device,
                fmt::format("{}: cannot use as output folder: {}", path_.string(), code.message()));
  }
}

OutputFolder::~OutputFolder() {
  if (kept_) return;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, code)) fs::remove(entry.path(), code);
  if (created_) fs::remove(path_, code);
}

void OutputFolder::require_space(std::uint64_t bytes) const {
  std::error_code code;
  const fs::space_info space = fs::space(path_, code);
  if (!code && space.available < bytes) {
    throw Error(ErrorKind::device, fmt::format("{}: the disk has {} MB free, {} MB are needed",
                                               path_.string(), space.available / 1000000, bytes / 1000000));
  }
}

}  // namespace lily::checkpoint
