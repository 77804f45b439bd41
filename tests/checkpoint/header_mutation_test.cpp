// safetensors headers as hostile input: cut, flipped and malformed ones end in an Error, never in a crash.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>
#include <string>

#include "checkpoint/edited_checkpoint.hpp"
#include "checkpoint/safetensors.hpp"
#include "lily/error.hpp"
#include "support/fixtures.hpp"
#include "support/text_checks.hpp"

namespace lily::testing {
namespace {

namespace fs = std::filesystem;

// The message of the Error, or nothing when the header is accepted. Anything else escapes and fails the test.
std::string header_error(const fs::path& path, std::string_view bytes) {
  write_file(path, bytes);
  const MappedFile file(path);
  try {
    for (const checkpoint::StoredTensor& tensor : checkpoint::read_safetensors_header(file)) {
      EXPECT_LE(tensor.offset, file.size());
      EXPECT_LE(tensor.bytes, file.size() - tensor.offset);
    }
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_TRUE(contains(error.what(), path.string()));
    return error.what();
  }
}

std::string small_file() {
  return safetensors_bytes(
      R"({"__metadata__":{"format":"mlx"},"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
      R"("b":{"dtype":"F32","shape":[],"data_offsets":[12,16]},"c":{"dtype":"U8","shape":[0],"data_offsets":[16,16]}})",
      std::string(16, 'x'));
}

TEST(Header, WellFormedIsRead) {
  const TemporaryFolder folder;
  EXPECT_EQ(header_error(folder.path() / "x.safetensors", small_file()), "");
}

TEST(Header, EveryTruncationIsAnError) {
  const TemporaryFolder folder;
  const std::string bytes = small_file();
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_NE(header_error(folder.path() / "x.safetensors", std::string_view(bytes).substr(0, length)), "")
        << length;
  }
  EXPECT_TRUE(contains(header_error(folder.path() / "x.safetensors", bytes + "y"), "holds"));
}

TEST(Header, EveryBitFlipIsAnErrorOrAValidHeader) {
  const TemporaryFolder folder;
  const std::string bytes = small_file();
  int refused = 0;
  for (std::size_t i = 0; i < bytes.size() - 16; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = bytes;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      refused += header_error(folder.path() / "x.safetensors", flipped).empty() ? 0 : 1;
    }
  }
  // Most bits carry structure; the rest are letters of names and metadata.
  EXPECT_GT(refused, static_cast<int>(bytes.size()) * 4);
}

// Overwrites the beginning of a file and leaves the rest, since writing megabytes for each round takes
// seconds.
void overwrite_beginning(const fs::path& path, std::string_view bytes) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

TEST(Header, RandomDamageOfARealHeaderNeverOpensAsSomethingElse) {
  const TemporaryFolder folder;
  EditedCheckpoint::load(kTinyQ4).save(folder.path(), 1);
  const fs::path path = folder.path() / "model.safetensors";
  const std::string bytes = read_file(path);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  const std::string header = bytes.substr(0, 8 + length);
  std::mt19937_64 random(7);
  int opened = 0;
  constexpr int kRounds = 1000;
  for (int round = 0; round < kRounds; ++round) {
    std::string damaged = header;
    for (std::uint64_t count = 1 + random() % 4; count > 0; --count) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    overwrite_beginning(path, damaged);
    opened += open_error(folder.path()).empty() ? 1 : 0;
  }
  // Every byte of this header is a name, a size or punctuation, so only identical replacements are harmless.
  EXPECT_LT(opened, kRounds / 20);
}

struct Malformed {
  const char* name;
  const char* header;
  const char* message;
};

class MalformedHeaders : public ::testing::TestWithParam<Malformed> {};

TEST_P(MalformedHeaders, AreRefusedWithTheReason) {
  const TemporaryFolder folder;
  const std::string bytes = safetensors_bytes(GetParam().header, std::string(4, 'x'));
  EXPECT_TRUE(contains(header_error(folder.path() / "x.safetensors", bytes), GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Headers, MalformedHeaders,
    ::testing::Values(
        Malformed{"NotAnObject", "[]", "an array found"}, Malformed{"Number", "7", "a number found"},
        Malformed{"NotJson", "{x", "not valid JSON"},
        Malformed{"TrailingText", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}} x)",
                  "not valid JSON"},
        Malformed{"TensorIsNoObject", R"({"a":3})", "a number found"},
        Malformed{
            "DuplicateTensor",
            R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
            "twice"},
        Malformed{"RepeatedField", R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                  "repeated"},
        Malformed{"UnknownField", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1}})",
                  "more"},
        Malformed{"NoDtype", R"({"a":{"shape":[1],"data_offsets":[0,4]}})", "dtype is missing"},
        Malformed{"NoShape", R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", "shape is missing"},
        Malformed{"NoOffsets", R"({"a":{"dtype":"F32","shape":[1]}})", "data_offsets"},
        Malformed{"OneOffset", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", "two are needed"},
        Malformed{"ThreeOffsets", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})",
                  "more than two"},
        Malformed{"NestedShape", R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})",
                  "an array found"},
        Malformed{"UnknownDtype", R"({"a":{"dtype":"Q4","shape":[1],"data_offsets":[0,4]}})", "Q4"},
        Malformed{"NegativeSize", R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "-1"},
        Malformed{"FractionalSize", R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", "1.0"},
        Malformed{"ProductOverflow",
                  R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})",
                  "too large"},
        Malformed{"SizeBeyond63Bits",
                  R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})",
                  "out of range"},
        Malformed{"NineDimensions",
                  R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", "dimensions"},
        Malformed{"BackwardOffsets", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})",
                  "backwards"},
        Malformed{"LengthMismatch", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})",
                  "needs 8 bytes"},
        Malformed{"BeyondTheFile", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", "truncated"},
        Malformed{
            "Overlap",
            R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
            "tensors before it end at 3"},
        Malformed{
            "Gap",
            R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})",
            "tensors before it end at 1"},
        Malformed{"NothingForTheData", R"({})", "holds"},
        Malformed{"MetadataNumber",
                  R"({"__metadata__":{"a":1},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                  "__metadata__"}),
    [](const auto& test) { return test.param.name; });

TEST(Header, HugeStatedLengthIsRefusedWithoutAllocation) {
  const TemporaryFolder folder;
  for (const char last : {'\x01', '\x7f', '\xff'}) {
    std::string bytes(64, '\0');
    bytes[7] = last;
    EXPECT_TRUE(contains(header_error(folder.path() / "x.safetensors", bytes), "at most"));
  }
}

TEST(Header, DeepNestingIsRefused) {
  const TemporaryFolder folder;
  std::string header = R"({"__metadata__":)";
  for (int i = 0; i < 200000; ++i) header += '[';
  EXPECT_TRUE(contains(header_error(folder.path() / "x.safetensors", safetensors_bytes(header, "")),
                       "an array found"));
}

TEST(Files, ThatAreNoRegularFilesAreRefused) {
  const TemporaryFolder folder;
  EXPECT_THROW(MappedFile(folder.path()), Error);
  EXPECT_THROW(MappedFile(folder.path() / "absent"), Error);
  EXPECT_THROW(MappedFile("/dev/null"), Error);
}

}  // namespace
}  // namespace lily::testing
