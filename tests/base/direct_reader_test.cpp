// Reading past the page cache gives the bytes of the file, or says why not.
#include "base/direct_reader.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/huge_buffer.hpp"
#include "lily/error.hpp"

namespace lily {
namespace {

class DirectReading : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 5 * 4096 + 1234; ++i) text_ += static_cast<char>(i * i % 251);
    std::ofstream(path_, std::ios::binary) << text_;
  }
  void TearDown() override { std::filesystem::remove(path_); }

  static std::string read(const DirectReader& reader, std::uint64_t offset, std::uint64_t length) {
    const HugeBuffer buffer(DirectReader::buffer_bytes(length), "a test");
    const auto bytes = reader.read(offset, length, {buffer.data(), buffer.size()});
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  // In the build folder, because a system's folder for temporary files may be in memory.
  const std::filesystem::path path_ =
      std::filesystem::path(LILY_BUILD_DIR) / ("direct-reading-" + std::to_string(::getpid()));
  std::string text_;
};

TEST_F(DirectReading, GivesAnyRangeCachedOrNot) {
  const MappedFile file(path_);
  const DirectReader reader(file);
  for (const std::uint64_t offset : {0, 1, 4095, 4096, 5000, 12288, 5 * 4096 + 1233}) {
    for (const std::uint64_t length : {1, 100, 4096, 8193, 22000}) {
      const std::uint64_t inside = std::min(length, text_.size() - offset);
      file.forget(0, file.size());
      EXPECT_EQ(read(reader, offset, inside), text_.substr(offset, inside)) << offset << ", " << inside;
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(file.bytes().data()), file.size()), text_);
      EXPECT_EQ(read(reader, offset, inside), text_.substr(offset, inside)) << offset << ", " << inside;
    }
  }
}

TEST_F(DirectReading, NamesAFileThatShrank) {
  const MappedFile file(path_);
  const DirectReader reader(file);
  std::filesystem::resize_file(path_, 2 * 4096 + 10);
  try {
    read(reader, 4000, 5000);
    FAIL() << "no error was raised";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::device);
    EXPECT_NE(std::string(error.what()).find(path_.string() + ": ends at offset 8202"), std::string::npos)
        << error.what();
  }
}

TEST_F(DirectReading, NeedsRoomForWholeBlocks) {
  const MappedFile file(path_);
  const HugeBuffer buffer(4096, "a test");
  EXPECT_THROW(DirectReader(file).read(0, 4096, {buffer.data(), 4096}), Error);
}

}  // namespace
}  // namespace lily
