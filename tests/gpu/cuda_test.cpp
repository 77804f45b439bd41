// The driver for NVIDIA GPUs: its contract as a device, and whole models against the emulator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "backend/gpu/cuda/cuda_device.hpp"
#include "backend/gpu/emulator/emulated_device.hpp"
#include "backend/gpu/gpu_backend.hpp"
#include "lily/error.hpp"
#include "support/fixtures.hpp"
#include "support/raises.hpp"

namespace lily::gpu {
namespace {

class Cuda : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      device_ = cuda::open_device();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      GTEST_SKIP() << error.what();
    }
  }

  std::vector<uint> read(const DeviceMemory& memory, std::size_t count) {
    std::vector<uint> values(count);
    device_->read(memory.address(), std::as_writable_bytes(std::span(values)));
    return values;
  }
  // Counts how often each of 256 experts occurs in `experts`, adding to `counts`.
  static Plan count_experts(const DeviceMemory& experts, const DeviceMemory& counts, uint n) {
    Plan plan;
    plan.add(CountExperts{experts.as<uint>(), counts.as<atomic_uint>(), n}, {(n + 255) / 256},
             {region(experts.as<uint>(), n)}, {region(counts.as<uint>(), 256)});
    return plan;
  }

  std::unique_ptr<Device> device_;
};

TEST_F(Cuda, MemoryIsZeroAtFirstAndKeepsWhatIsWritten) {
  const DeviceMemory memory = device_->allocate(4096, "test");
  EXPECT_EQ(read(memory, 1024), std::vector<uint>(1024, 0));
  std::vector<uint> values(1024);
  std::iota(values.begin(), values.end(), 7U);
  device_->write(memory.address(), std::as_bytes(std::span(values)));
  EXPECT_EQ(read(memory, 1024), values);
  device_->clear(memory.as<uint>(512), 2048);
  std::fill(values.begin() + 512, values.end(), 0U);
  EXPECT_EQ(read(memory, 1024), values);
}

TEST_F(Cuda, TooLargeAnAllocationNamesWhatIsNeededAndWhatIsThere) {
  const Error error = testing::raised([&] { device_->allocate(std::size_t{1} << 50, "a petabyte"); });
  EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
  EXPECT_THAT(error.what(),
              ::testing::ContainsRegex("a petabyte: 1048576.00 GiB are needed, GPU .* GiB free"));
  EXPECT_EQ(read(device_->allocate(4, "test"), 1), std::vector<uint>{0});  // and the device goes on
}

TEST_F(Cuda, PreparedPlansRunAgainAndAgain) {
  const std::vector<uint> experts{3, 3, 255, 0};
  const DeviceMemory list = device_->allocate(16, "test"), counts = device_->allocate(1024, "test");
  device_->write(list.address(), std::as_bytes(std::span(experts)));
  const auto plan = device_->prepare(count_experts(list, counts, 4));
  for (int i = 0; i < 5; ++i) plan->run();
  device_->run(count_experts(list, counts, 4));
  const auto found = read(counts, 256);
  EXPECT_EQ(found[3], 12U);
  EXPECT_EQ(found[255], 6U);
  EXPECT_EQ(found[0], 6U);
  EXPECT_EQ(std::accumulate(found.begin(), found.end(), 0U), 24U);
}

TEST_F(Cuda, ALaunchThatCannotBeNamesItsKernel) {
  const DeviceMemory memory = device_->allocate(1024, "test");
  Plan plan;
  plan.add(CountExperts{memory.as<uint>(), memory.as<atomic_uint>(), 1}, {1, 1 << 20, 1}, {}, {});
  EXPECT_THAT(testing::raised([&] { device_->run(plan); }).what(), ::testing::HasSubstr("CountExperts"));
  EXPECT_THAT(testing::raised([&] { device_->prepare(plan); }).what(), ::testing::HasSubstr("CountExperts"));
  device_->run(count_experts(memory, memory, 1));  // and the device goes on
  device_->finish();
}

TEST_F(Cuda, WhatKernelsWriteForTheHostIsThereAfterTheirMark) {
  const std::vector<uint> experts(256, 9);
  const DeviceMemory list = device_->allocate(1024, "test"), shared = device_->allocate_shared(1024, "test");
  device_->write(list.address(), std::as_bytes(std::span(experts)));
  for (uint round = 1; round <= 3 * Device::kMarks; ++round) {
    device_->run(count_experts(list, shared, 256));
    device_->wait(device_->mark());
    ASSERT_EQ(shared.as<uint>()[9], 256 * round);
  }
}

TEST_F(Cuda, UploadsArriveWhole) {
  constexpr std::size_t kPiece = 100'000, kPieces = 64;
  const DeviceMemory memory = device_->allocate(kPiece * kPieces * sizeof(uint), "test");
  const auto upload = device_->upload(4);
  ThreadPool pool(4);
  pool.parallel_for(kPieces, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto staging = upload->staging(thread, kPiece * sizeof(uint));
      auto* const values = reinterpret_cast<uint*>(staging.data());
      std::iota(values, values + kPiece, static_cast<uint>(i) * kPiece);
      upload->send(thread, memory.as<uint>(static_cast<std::size_t>(i) * kPiece));
    }
  });
  upload->finish();
  std::vector<uint> expected(kPiece * kPieces);
  std::iota(expected.begin(), expected.end(), 0U);
  EXPECT_EQ(read(memory, expected.size()), expected);
}

TEST_F(Cuda, TheMemorysSpeedIsThatOfAGpu) {
  EXPECT_GT(device_->measure_limits().stream_gb_per_s, 50);  // the slowest with the capability has 192
}

// Captured steps that run ahead of the host choose what the host would choose after each of them.
TEST_F(Cuda, TokensChosenOnTheDeviceAreThoseOfItsLogits) {
  constexpr int kTokens = 24;
  const auto backend = open_gpu_backend(std::move(device_), checkpoint::Checkpoint::open(testing::kTinyQ4),
                                        KvFormat::f16, 2, {});
  const auto sequence = backend->new_sequence(64);
  std::vector<float> logits(static_cast<std::size_t>(backend->dimensions().vocabulary));
  const std::vector<TokenId> prompt{3, 141, 59, 26, 50};
  std::vector<TokenId> by_host, by_device;
  backend->prefill(*sequence, prompt, logits, {});
  for (int i = 0; i < kTokens; ++i) {
    by_host.push_back(static_cast<TokenId>(testing::argmax(logits)));
    backend->decode(*sequence, by_host.back(), logits);
  }
  sequence->reset();
  backend->prefill(*sequence, prompt, logits, {});
  backend::SamplingRules rules;
  rules.temperature = 0;
  rules.allowed = {{0, backend->dimensions().vocabulary}};
  const auto stream = backend->stream(*sequence, rules, kTokens);
  for (int i = 0; i < kTokens; ++i) by_device.push_back(stream->next());
  EXPECT_EQ(by_device, by_host);
}

// Logits of all positions: `prefilled` tokens at once, the rest decoded.
std::vector<std::vector<float>> logits_of(backend::Backend& backend, int count, int prefilled) {
  const auto sequence = backend.new_sequence(count);
  std::vector<TokenId> ids;
  for (int i = 0; i < count; ++i) {
    ids.push_back(static_cast<TokenId>(static_cast<std::uint32_t>(i) * 2654435761U % 500));
  }
  std::vector<std::vector<float>> all(ids.size());
  std::vector<float> logits(static_cast<std::size_t>(backend.dimensions().vocabulary));
  backend::PrefillControl control;
  control.every_position = [&](int position, std::span<const float> row) {
    all[static_cast<std::size_t>(position)].assign(row.begin(), row.end());
  };
  const auto first = static_cast<std::size_t>(prefilled);
  if (prefilled > 0) backend.prefill(*sequence, std::span(ids).first(first), logits, control);
  for (std::size_t i = first; i < ids.size(); ++i) {
    backend.decode(*sequence, ids[i], logits);
    all[i] = logits;
  }
  return all;
}

// The two differ in fused multiplications and in exponentials only; what that does to a logit grows with the
// layers, and a cached value that falls to the other side of a step of its 8 bits does more. Logits have a
// standard deviation of 2.8; seen on an H200: 0.02, and 0.061 in 8 bits.
class CudaModels : public Cuda, public ::testing::WithParamInterface<KvFormat> {
 protected:
  void expect_near(const std::filesystem::path& folder, int count, int prefilled) {
    const auto checkpoint = checkpoint::Checkpoint::open(folder);
    const auto cuda = open_gpu_backend(std::move(device_), checkpoint, GetParam(), 2, {});
    const auto emulator =
        open_gpu_backend(emulator::open_device(available_cores()), checkpoint, GetParam(), 2, {});
    const auto found = logits_of(*cuda, count, prefilled), expected = logits_of(*emulator, count, prefilled);
    for (std::size_t position = 0; position < expected.size(); ++position) {
      EXPECT_LT(testing::max_abs_difference(found[position], expected[position]),
                GetParam() == KvFormat::int8 ? 0.15 : 0.05)
          << position;
    }
    EXPECT_EQ(logits_of(*cuda, count, prefilled), found) << "two runs";
  }
};

TEST_P(CudaModels, DecodeAgreesWithTheEmulator) { expect_near(testing::kTinyQ4, 24, 0); }
TEST_P(CudaModels, FewTokensAgreeWithTheEmulator) { expect_near(testing::kTinyQ4, 12, 9); }
TEST_P(CudaModels, ShortPromptsAgreeWithTheEmulator) { expect_near(testing::kTinyQ4, 52, 49); }
TEST_P(CudaModels, PromptsInChunksAgreeWithTheEmulator) { expect_near(testing::kTinyQ4, 133, 130); }
// No more tokens: with 8 bits the emulator itself answers the 37th otherwise, by 1.6, when the prompt is cut
// after 35 and not after 36.
TEST_P(CudaModels, TheBundledModelAgreesWithTheEmulator) { expect_near(testing::kMini, 36, 32); }

INSTANTIATE_TEST_SUITE_P(, CudaModels, ::testing::Values(KvFormat::f16, KvFormat::int8),
                         [](const auto& kv) { return kv.param == KvFormat::f16 ? "f16" : "int8"; });

}  // namespace
}  // namespace lily::gpu
