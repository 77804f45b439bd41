// Loading weights past the page cache: the same weights, and nothing of them stays in the cache.
#include "backend/cpu/weights.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "support/fixtures.hpp"

namespace lily::cpu {
namespace {

constexpr std::uint64_t kLittleMemory = 1, kMuchMemory = std::uint64_t{1} << 50;

// A checkpoint that no other test reads, all of it on the disk.
class CopiedCheckpoint {
 public:
  CopiedCheckpoint() {
    std::filesystem::copy(testing::kTinyQ4, folder_);
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      const int descriptor = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
      EXPECT_EQ(::fsync(descriptor), 0);
      ::close(descriptor);
    }
    checkpoint_ = checkpoint::Checkpoint::open(folder_);
    checkpoint_->forget_all();
  }
  ~CopiedCheckpoint() { std::filesystem::remove_all(folder_); }
  CopiedCheckpoint(const CopiedCheckpoint&) = delete;
  CopiedCheckpoint& operator=(const CopiedCheckpoint&) = delete;

  const checkpoint::Checkpoint& operator*() const { return *checkpoint_; }

  // Of pieces of 64 KiB, those that are wholly in the page cache.
  int cached_pieces() const {
    constexpr std::uint64_t kPiece = 64 << 10;
    int cached = 0;
    for (int shard = 0; shard < checkpoint_->proof().shards; ++shard) {
      const MappedFile& file = checkpoint_->file(shard);
      for (std::uint64_t offset = 0; offset < file.size(); offset += kPiece) {
        if (file.cached(offset, std::min(kPiece, file.size() - offset))) ++cached;
      }
    }
    return cached;
  }

 private:
  // In the build folder, because a system's folder for temporary files may be in memory.
  const std::filesystem::path folder_ =
      std::filesystem::path(LILY_BUILD_DIR) / ("weights-test-" + std::to_string(::getpid()));
  std::shared_ptr<const checkpoint::Checkpoint> checkpoint_;
};

TEST(LoadingWeights, PastTheCacheGivesTheSameWeights) {
  const CopiedCheckpoint checkpoint;
  ThreadPool pool(2);
  const Weights past = load_weights(*checkpoint, pool, {}, kLittleMemory);
  const Weights through = load_weights(*checkpoint, pool, {}, kMuchMemory);
  ASSERT_EQ(past.arena.size(), through.arena.size());
  EXPECT_EQ(std::memcmp(past.arena.data(), through.arena.data(), past.arena.size()), 0);
}

TEST(LoadingWeights, KeepsAModelInTheCacheOnlyBesideEnoughMemory) {
  const CopiedCheckpoint checkpoint;
  if (checkpoint.cached_pieces() > 0) GTEST_SKIP() << "the file system of the build folder keeps its pages";
  ThreadPool pool(2);
  for (const bool cached_before : {false, true}) {
    if (cached_before) load_weights(*checkpoint, pool, {}, kMuchMemory);
    EXPECT_EQ(checkpoint.cached_pieces() > 0, cached_before);
    load_weights(*checkpoint, pool, {}, kLittleMemory);
    EXPECT_EQ(checkpoint.cached_pieces(), 0);
  }
}

TEST(LoadingWeights, ReportsEveryByteOnce) {
  const CopiedCheckpoint checkpoint;
  ThreadPool pool(2);
  std::uint64_t last = 0, whole = 0;
  load_weights(*checkpoint, pool,
               [&](std::string_view, std::uint64_t done, std::uint64_t total, std::string_view) {
                 EXPECT_GT(done, last);
                 last = done;
                 whole = total;
               });
  EXPECT_EQ(last, whole);
  EXPECT_GE(whole, (*checkpoint).head().stored_bytes() + (*checkpoint).embedding().stored_bytes());
}

}  // namespace
}  // namespace lily::cpu
