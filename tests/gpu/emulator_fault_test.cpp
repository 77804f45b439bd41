// Wrong kernels: the emulator must find what is wrong with each.
#include <gtest/gtest.h>
#include <cmath>

#include "backend/gpu/dialect/weights.h"
#include "backend/gpu/emulator/emulator.hpp"
#include "support/raises.hpp"

using namespace lily::gpu;  // NOLINT(google-build-using-namespace): kernels are written so

namespace {

struct Pair {
  enum : uint { threads = 64 };
  in<float> x;
  out<float> y;
  struct Shared {
    float v[65];
  };
};

struct Divergent : Pair {};
GPU_KERNEL(Divergent) {
  float v = a.x[t.index];
  if (t.lane < 8) v = simd_sum(v);
  a.y[t.index] = simd_sum(v);
}
struct DivergentBarrier : Pair {};
GPU_KERNEL(DivergentBarrier) {
  if (t.simd == 0) {  // NOLINT(bugprone-branch-clone): two barriers that look alike are the fault
    group_barrier();
  } else {
    group_barrier();
  }
  a.y[t.index] = a.x[t.index];
}
struct EarlyReturn : Pair {};
GPU_KERNEL(EarlyReturn) {
  if (t.index >= 40) return;
  s.v[t.index] = a.x[t.index];
  group_barrier();
  a.y[t.index] = s.v[t.index ^ 1];
}
struct Misaligned : Pair {};
GPU_KERNEL(Misaligned) { a.y[t.index] = t.index < 60 ? load4(a.x + t.index).x : 0.0f; }
struct MisalignedHint : Pair {};
GPU_KERNEL(MisalignedHint) {
  if (t.index == 0) prefetch_cache(reinterpret_cast<in<uchar>>(a.x + 1), 16);
  a.y[t.index] = 0.0f;
}
struct MissingBarrier : Pair {};
GPU_KERNEL(MissingBarrier) {  // none after the read
  float sum = 0;
  for (uint i = 0; i < 2; ++i) {
    s.v[t.index] = a.x[t.index] + float(i);
    group_barrier();
    sum += s.v[(t.index + 33) % 64];
  }
  a.y[t.index] = sum;
}
struct MissingSync : Pair {};
GPU_KERNEL(MissingSync) {  // none between the write and a neighbour's read
  s.v[t.index] = 0;
  group_barrier();
  s.v[t.index] = a.x[t.index];
  a.y[t.index] = s.v[t.index ^ 1];
}
struct Unwritten : Pair {};
GPU_KERNEL(Unwritten) {
  s.v[t.index] = a.x[t.index];
  group_barrier();
  a.y[t.index] = s.v[t.index + 1];
}
struct Correct : Pair {};
GPU_KERNEL(Correct) {
  s.v[t.index] = a.x[t.index];
  group_barrier();
  a.y[t.index] = s.v[63 - t.index];
}
struct OutOfBounds : Pair {};
GPU_KERNEL(OutOfBounds) { a.y[t.index + 1] = a.x[t.index]; }
struct OddThreads : Pair {
  enum : uint { threads = 48 };
};
GPU_KERNEL(OddThreads) { a.y[t.index] = a.x[t.index]; }
struct TooMany : Pair {
  enum : uint { threads = 1056 };
};
GPU_KERNEL(TooMany) { a.y[t.index % 64] = a.x[t.index % 64]; }

// Kernels that prefetch weight blocks: `wrong` says which rule they break.
struct Prefetching {
  enum : uint { threads = 64, tile_blocks = 2 };
  in<uchar> blocks;
  out<float> y;
  uint wrong;
  struct Shared {
    uint4 codes[32];
    InputGroup groups[4];
    TileBarrier barrier;
  };
};
GPU_KERNEL(Prefetching) {
  prefetch_begin(s.barrier, t);
  if (t.index == 0) {
    prefetch_tile(s.barrier, a.wrong == 1 ? 1 : 0, a.blocks, 2);
    if (a.wrong != 2) prefetch_end(s.barrier);
  }
  float x[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  if (t.simd == 0) quantize_inputs(x, s.codes, s.groups, t.lane);
  if (a.wrong != 3) group_barrier();
  if (a.wrong != 4) tile_ready(s.barrier);
  block_pointer block =
      tile_block(s.barrier, t.simd, a.blocks + (a.wrong == 5 ? 1 : t.simd) * WeightBlock::bytes);
  if (a.wrong == 3) group_barrier();
  BlockInputs inputs = block_inputs(s.codes, s.groups, 0, t.lane);
  float sum = dot_block(block, inputs, t.lane);
  if ((t.lane & 3) < 2) a.y[t.simd * 16 + (t.lane >> 2) + (t.lane & 3) * 8] = sum;
}

}  // namespace

namespace lily::gpu::emulator {
namespace {

using ::lily::testing::expect_mentions;
using ::lily::testing::raised;

template <class Arguments>
std::vector<float> output(void (*entry)(const void*, void*, Thread), LaneOrder order = LaneOrder::forward) {
  std::vector<float> x(64), y(64);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
  Arguments arguments{};
  arguments.x = x.data();
  arguments.y = y.data();
  run(make_kernel<Arguments>("Planted", entry), &arguments, {2}, order);
  return y;
}

TEST(EmulatorFaults, SimdFunctionInDivergentCode) {
  const Error error = raised([] { output<Divergent>(Divergent_entry); });
  EXPECT_EQ(error.kind(), ErrorKind::internal);
  expect_mentions(error, "kernel Planted, threadgroup (0, 0, 0)");
  expect_mentions(error, "0 to 7 at the simd function of");
  expect_mentions(error, "8 to 31 at the simd function of");
}

TEST(EmulatorFaults, DifferentBarriers) {
  const Error error = raised([] { output<DivergentBarrier>(DivergentBarrier_entry); });
  expect_mentions(error, "0 to 31 at the barrier of");
  expect_mentions(error, "32 to 63 at the barrier of");
}

TEST(EmulatorFaults, ReturnBeforeABarrier) {
  const Error error = raised([] { output<EarlyReturn>(EarlyReturn_entry); });
  expect_mentions(error, "32 to 39 at the barrier of");
  expect_mentions(error, "40 to 63 returned");
}

TEST(EmulatorFaults, MisalignedAccess) {
  expect_mentions(raised([] { output<Misaligned>(Misaligned_entry); }), "thread 1: misaligned access");
  expect_mentions(raised([] { output<MisalignedHint>(MisalignedHint_entry); }), "prefetch_cache");
}

TEST(EmulatorFaults, RunsAgainAfterAFault) {
  for (int i = 0; i < 3; ++i) {
    raised([] { output<Divergent>(Divergent_entry); });
    raised([] { output<Misaligned>(Misaligned_entry); });
    const std::vector<float> y = output<Correct>(Correct_entry);
    EXPECT_EQ(y[0], 64);
    EXPECT_EQ(y[63], 1);
  }
}

TEST(EmulatorFaults, MissingBarrierDependsOnTheOrder) {
  const auto forward = output<MissingBarrier>(MissingBarrier_entry, LaneOrder::forward);
  const auto backward = output<MissingBarrier>(MissingBarrier_entry, LaneOrder::backward);
  EXPECT_NE(forward, backward);
  const auto first = output<MissingSync>(MissingSync_entry, LaneOrder::forward);
  const auto last = output<MissingSync>(MissingSync_entry, LaneOrder::backward);
  EXPECT_NE(first, last);
}

TEST(EmulatorFaults, UnwrittenThreadgroupMemoryIsNan) {
  const std::vector<float> y = output<Unwritten>(Unwritten_entry);
  EXPECT_TRUE(std::isnan(y[63]));
  EXPECT_EQ(y[62], 64);
}

TEST(EmulatorFaults, LimitsOfThreadgroups) {
  expect_mentions(raised([] { output<OddThreads>(OddThreads_entry); }), "48 threads, need a multiple of 32");
  expect_mentions(raised([] { output<TooMany>(TooMany_entry); }), "1056 threads");
  Kernel large = make_kernel<Correct>("Large", Correct_entry);
  large.shared_bytes = 32769;
  expect_mentions(raised([&] { run(large, nullptr, {1}); }), "32769 bytes of threadgroup memory");
}

TEST(EmulatorFaults, PrefetchedBlocksAreWaitedFor) {
  std::vector<uint4> blocks(2 * WeightBlock::bytes / sizeof(uint4), uint4{0, 0, 0, 0});
  std::vector<float> y(32, NAN);
  const auto planted = [&](uint wrong, LaneOrder order) {
    const Prefetching arguments{reinterpret_cast<const uchar*>(blocks.data()), y.data(), wrong};
    run(make_kernel<Prefetching>("Planted", Prefetching_entry), &arguments, {1}, order);
  };
  for (const LaneOrder order : {LaneOrder::forward, LaneOrder::backward, LaneOrder::shuffled}) {
    std::fill(y.begin(), y.end(), NAN);
    planted(0, order);
    EXPECT_EQ(y, std::vector<float>(32));
    expect_mentions(raised([&] { planted(1, order); }), "beyond the kernel's tile_blocks");
    expect_mentions(raised([&] { planted(2, order); }), "tile_ready before the prefetches ended");
    expect_mentions(raised([&] { planted(3, order); }), "tile_ready before the prefetches ended");
    expect_mentions(raised([&] { planted(4, order); }), "tile_block before tile_ready");
    expect_mentions(raised([&] { planted(5, order); }), "was not prefetched there");
  }
}

TEST(EmulatorFaults, CorrectKernelIsTheSameInAllOrders) {
  const auto forward = output<Correct>(Correct_entry, LaneOrder::forward);
  EXPECT_EQ(output<Correct>(Correct_entry, LaneOrder::backward), forward);
  EXPECT_EQ(output<Correct>(Correct_entry, LaneOrder::shuffled), forward);
}

#if defined(__SANITIZE_ADDRESS__)
TEST(EmulatorFaults, AddressSanitizerSeesAccessesOutOfBounds) {
  EXPECT_DEATH(output<OutOfBounds>(OutOfBounds_entry), "heap-buffer-overflow");
}
#else
TEST(EmulatorFaults, AddressSanitizerSeesAccessesOutOfBounds) {
  static_cast<void>(OutOfBounds_entry);
  GTEST_SKIP() << "this build has no address sanitizer";
}
#endif

}  // namespace
}  // namespace lily::gpu::emulator
