// The emulator: the scheduler of one threadgroup's fibers, and the faults it finds.
#include "backend/gpu/emulator/emulator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backend/gpu/emulator/fiber.hpp"
#include "backend/gpu/emulator/lanes.hpp"
#include "base/huge_buffer.hpp"
#include "lily/error.hpp"

namespace lily::gpu::emulator {

namespace {

constexpr uint kMaxThreads = 1024;
constexpr std::size_t kMaxSharedBytes = 32768;
constexpr uint kMaxTileBlocks =
    84;  // 189 KiB: with 32 KiB beside it, what a Hopper multiprocessor gives one threadgroup
constexpr std::size_t kStackBytes = 64 << 10;
// Stacks 64 KiB apart would all fall into one set of the first-level cache, which costs a factor of two.
constexpr std::size_t kStagger = 320;

enum class State : unsigned char { ready, at_simd_function, at_barrier, returned };

struct EmulatedThread : Lane {
  Fiber fiber;
  State state = State::ready;
  Place place{};
  uint index = 0;
};

// Stacks of one worker; pages are taken as fibers touch them. A file may be mapped next where they were.
class WorkerStacks {
 public:
  WorkerStacks() = default;
  WorkerStacks(const WorkerStacks&) = delete;
  WorkerStacks& operator=(const WorkerStacks&) = delete;
  ~WorkerStacks() { Fiber::clean_stacks(memory_.data(), memory_.size()); }
  std::byte* first() const { return memory_.data() + kStackBytes; }

 private:
  HugeBuffer memory_{(kMaxThreads + 1) * kStackBytes, "stacks of the emulator"};
};

std::byte* worker_stacks() {
  static thread_local const WorkerStacks kStacks;
  return kStacks.first();
}

// The blocks that a threadgroup has prefetched.
class TileMemory {
 public:
  explicit TileMemory(uint blocks)
      : bytes_(static_cast<std::size_t>(blocks) * WeightBlock::bytes + kAlignment), sources_(blocks) {
    void* start = bytes_.data();
    std::size_t room = bytes_.size();
    blocks_ = static_cast<uchar*>(std::align(kAlignment, room - kAlignment, start, room));
  }

  void reset() {
    std::fill(sources_.begin(), sources_.end(), nullptr);
    copies_.clear();
  }
  bool holds(uint slot, uint blocks) const {
    return slot + blocks <= sources_.size() && slot + blocks >= slot;
  }
  void prefetch(const TileBarrier* barrier, uint slot, const uchar* from, uint blocks) {
    copies_.push_back({barrier, slot, from, blocks});
    std::memset(block(slot), 0xff,
                static_cast<std::size_t>(blocks) * WeightBlock::bytes);  // NaN until they arrive
  }
  void arrive(const TileBarrier* barrier) {
    for (const Copy& copy : copies_) {
      if (copy.barrier != barrier) continue;
      std::memcpy(block(copy.slot), copy.from, static_cast<std::size_t>(copy.blocks) * WeightBlock::bytes);
      for (uint i = 0; i < copy.blocks; ++i) sources_[copy.slot + i] = copy.from + i * WeightBlock::bytes;
    }
  }
  uchar* block(uint slot) { return blocks_ + static_cast<std::size_t>(slot) * WeightBlock::bytes; }
  const uchar* source(uint slot) const { return sources_[slot]; }

 private:
  struct Copy {
    const TileBarrier* barrier;
    uint slot;
    const uchar* from;
    uint blocks;
  };
  static constexpr std::size_t kAlignment = 128;

  std::vector<std::byte> bytes_;
  std::vector<const uchar*> sources_;
  std::vector<Copy> copies_;
  uchar* blocks_ = nullptr;
};

class Threadgroup {
 public:
  Threadgroup(const Kernel& kernel, const void* arguments, LaneOrder order)
      : kernel_(kernel),
        arguments_(arguments),
        order_(order),
        threads_(kernel.threads),
        simdgroups_(kernel.threads / kLanes),
        memory_(kernel.shared_bytes + kAlignment),
        tiles_(kernel.tile_blocks) {
    for (uint i = 0; i < kernel.threads; ++i) {
      threads_[i].index = i;
      threads_[i].id = i % kLanes;
      threads_[i].simdgroup = &simdgroups_[i / kLanes];
    }
    void* start = memory_.data();
    std::size_t room = memory_.size();
    shared_ = std::align(kAlignment, kernel.shared_bytes, start, room);
    scheduler_.adopt_thread();
  }

  // Runs one threadgroup to its end.
  void run(uint3 group);

  const Statistics& statistics() const { return statistics_; }

  // Called on a fiber: waits, in the given state.
  void leave(EmulatedThread& thread, State state, Place place);
  [[noreturn]] void fault(EmulatedThread& thread, const char* message);
  TileMemory& tiles() { return tiles_; }
  uint barriers() const { return barriers_; }
  bool copies_at_once() const { return order_ == LaneOrder::backward; }

 private:
  static constexpr std::size_t kAlignment = 16;

  static void fiber_entry();
  // Goes on with the next lane of this round that can run, straight from lane to lane (through the scheduler
  // it would be two switches instead of one), or with the scheduler.
  void go_on(EmulatedThread& thread, bool for_good);
  EmulatedThread* next_ready();
  // Runs one simdgroup until all its lanes wait at one barrier or have returned.
  void advance(uint simdgroup);
  uint nth(uint i, uint count, uint start) const;
  uint next_random();
  void require_together(uint first, uint count) const;

  const Kernel& kernel_;
  const void* arguments_;
  LaneOrder order_;
  std::vector<EmulatedThread> threads_;
  std::vector<Simdgroup> simdgroups_;
  std::vector<std::byte> memory_;
  void* shared_ = nullptr;
  TileMemory tiles_;
  uint barriers_ = 0;
  Fiber scheduler_;
  Fiber* left_ = nullptr;  // what was running before the present fiber
  // The round in progress: its simdgroup, the lanes met so far, and where a shuffled walk began.
  EmulatedThread* round_lanes_ = nullptr;
  uint round_ = 0, round_start_ = 0;
  uint3 group_{};
  std::string fault_;
  Statistics statistics_;
  std::uint64_t random_ = 88172645463325252U;
};

constinit thread_local Threadgroup* current_group = nullptr;

EmulatedThread& current_thread() { return *static_cast<EmulatedThread*>(current_lane); }

void Threadgroup::fiber_entry() {
  Threadgroup& group = *current_group;
  Fiber::entered(*group.left_);
  EmulatedThread& thread = current_thread();
  group.kernel_.entry(group.arguments_, group.shared_,
                      Thread{group.group_, thread.index, thread.id, thread.index / kLanes});
  thread.state = State::returned;
  thread.place = {};
  group.go_on(thread, true);
}

EmulatedThread* Threadgroup::next_ready() {
  while (round_ < kLanes) {
    EmulatedThread& thread = round_lanes_[nth(round_++, kLanes, round_start_)];
    if (thread.state == State::ready) return &thread;
  }
  return nullptr;
}

void Threadgroup::go_on(EmulatedThread& thread, bool for_good) {
  EmulatedThread* next = next_ready();
  left_ = &thread.fiber;
  ++statistics_.switches;
  if (next != nullptr) current_lane = next;
  thread.fiber.switch_to(next != nullptr ? next->fiber : scheduler_, for_good);
}

void Threadgroup::leave(EmulatedThread& thread, State state, Place place) {
  thread.state = state;
  thread.place = place;
  go_on(thread, false);
}

void Threadgroup::fault(EmulatedThread& thread, const char* message) {
  fault_ = fmt::format("kernel {}, threadgroup ({}, {}, {}), thread {}: {}", kernel_.name, group_.x, group_.y,
                       group_.z, thread.index, message);
  for (;;) thread.fiber.switch_to(scheduler_, true);  // the scheduler throws and never comes back
}

uint Threadgroup::next_random() {
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return static_cast<uint>(random_ >> 40);
}

// The i-th of `count` in this run's order; `count` is a power of two, so the shuffled walk meets each once.
uint Threadgroup::nth(uint i, uint count, uint start) const {
  switch (order_) {
    case LaneOrder::forward:
      return i;
    case LaneOrder::backward:
      return count - 1 - i;
    case LaneOrder::shuffled:
      return (i * 13 + start) & (count - 1);
  }
  return i;
}

std::string describe(const EmulatedThread& thread) {
  const auto at = [&](const char* what) {
    return fmt::format("{} {}:{}", what, thread.place.file, thread.place.line);
  };
  switch (thread.state) {
    case State::ready:
      return "running";
    case State::at_simd_function:
      return at("at the simd function of");
    case State::at_barrier:
      return at("at the barrier of");
    case State::returned:
      return "returned";
  }
  return {};
}

void Threadgroup::require_together(uint first, uint count) const {
  const auto same = [](const EmulatedThread& a, const EmulatedThread& b) {
    return a.state == b.state && a.place.file == b.place.file && a.place.line == b.place.line;
  };
  uint end = first + count, i = first + 1;
  while (i < end && same(threads_[i], threads_[first])) ++i;
  if (i == end) return;
  std::string message = fmt::format("kernel {}, threadgroup ({}, {}, {}): threads part ways:", kernel_.name,
                                    group_.x, group_.y, group_.z);
  for (i = first; i < end;) {
    uint j = i + 1;
    while (j < end && same(threads_[j], threads_[i])) ++j;
    message += fmt::format(" {} to {} {};", i, j - 1, describe(threads_[i]));
    i = j;
  }
  message.back() = '.';
  throw Error(ErrorKind::internal, message);
}

void Threadgroup::advance(uint simdgroup) {
  EmulatedThread* lanes = &threads_[simdgroup * kLanes];
  round_lanes_ = lanes;
  for (;;) {
    round_ = 0;
    round_start_ = next_random();
    if (EmulatedThread* first = next_ready()) {
      current_lane = first;
      left_ = &scheduler_;
      ++statistics_.switches;
      scheduler_.switch_to(first->fiber);
      if (!fault_.empty()) throw Error(ErrorKind::internal, fault_);
    }
    require_together(simdgroup * kLanes, kLanes);
    if (lanes[0].state != State::at_simd_function) return;
    ++statistics_.meetings;
    simdgroups_[simdgroup].reduced[lanes[0].phase] = false;
    for (uint i = 0; i < kLanes; ++i) lanes[i].state = State::ready;
  }
}

void Threadgroup::run(uint3 group) {
  group_ = group;
  current_group = this;
  std::memset(shared_, 0xff, kernel_.shared_bytes);  // NaN, so that reads before writes show
  tiles_.reset();
  barriers_ = 0;
  std::byte* stacks = worker_stacks();
  for (EmulatedThread& thread : threads_) {
    std::byte* stack = stacks + thread.index * kStackBytes - (thread.index * kStagger) % 4096 / 64 * 64;
    thread.fiber.prepare(stack, kStackBytes - 4096, fiber_entry);
    thread.state = State::ready;
    thread.phase = 0;
  }
  const uint simdgroups = kernel_.threads / kLanes;
  uint power = 1;
  while (power < simdgroups) power *= 2;
  ++statistics_.threadgroups;
  for (;;) {
    const uint start = next_random();
    for (uint i = 0; i < power; ++i) {
      const uint simdgroup = nth(i, power, start);
      if (simdgroup < simdgroups) advance(simdgroup);
    }
    require_together(0, kernel_.threads);
    if (threads_[0].state == State::returned) return;
    ++statistics_.meetings;
    ++barriers_;
    for (EmulatedThread& thread : threads_) thread.state = State::ready;
  }
}

void check_limits(const Kernel& kernel) {
  if (kernel.threads == 0 || kernel.threads % kLanes != 0 || kernel.threads > kMaxThreads) {
    throw Error(ErrorKind::internal, fmt::format("kernel {}: {} threads, need a multiple of {} up to {}",
                                                 kernel.name, kernel.threads, kLanes, kMaxThreads));
  }
  if (kernel.tile_blocks > kMaxTileBlocks) {
    throw Error(ErrorKind::internal, fmt::format("kernel {}: {} blocks of tile memory, at most {}",
                                                 kernel.name, kernel.tile_blocks, kMaxTileBlocks));
  }
  if (kernel.shared_bytes > kMaxSharedBytes) {
    throw Error(ErrorKind::internal, fmt::format("kernel {}: {} bytes of threadgroup memory, at most {}",
                                                 kernel.name, kernel.shared_bytes, kMaxSharedBytes));
  }
}

}  // namespace

constinit thread_local Lane* current_lane = nullptr;

void meet(Place place) { current_group->leave(current_thread(), State::at_simd_function, place); }
void group_barrier(Place place) { current_group->leave(current_thread(), State::at_barrier, place); }
void fault(const char* message) { current_group->fault(current_thread(), message); }

// State of a TileBarrier: begun, or the number of group barriers passed when its prefetches ended.
// Threadgroup memory starts as all ones, which is neither.
constexpr ulong kBegun = 1, kEnded = 2, kReady = ulong{1} << 62;

void prefetch_begin(TileBarrier& barrier) { barrier.state = kBegun; }

void prefetch(TileBarrier& barrier, uint slot, const uchar* from, uint blocks) {
  TileMemory& tiles = current_group->tiles();
  if (barrier.state != kBegun) fault("prefetch_tile without prefetch_begin, or after prefetch_end");
  if (!tiles.holds(slot, blocks)) fault("prefetch_tile beyond the kernel's tile_blocks");
  check_aligned(from, 16);
  tiles.prefetch(&barrier, slot, from, blocks);
}

void prefetch_cache(const uchar* from, uint bytes) {
  if (reinterpret_cast<std::uintptr_t>(from) % 16 != 0 || bytes == 0 || bytes % 16 != 0) {
    fault("prefetch_cache of what does not begin and end at multiples of 16 bytes");
  }
  // A machine may read all of it, so both ends are read here, where the address sanitizer sees it.
  static_cast<void>(*static_cast<const volatile uchar*>(from));
  static_cast<void>(*static_cast<const volatile uchar*>(from + bytes - 1));
}

void prefetch_end(TileBarrier& barrier) {
  if (barrier.state != kBegun) fault("prefetch_end without prefetch_begin");
  barrier.state = kEnded + current_group->barriers();
  if (current_group->copies_at_once()) current_group->tiles().arrive(&barrier);
}

void tile_ready(TileBarrier& barrier) {
  if (barrier.state == kReady) return;
  if (barrier.state == kBegun || barrier.state >= kEnded + current_group->barriers()) {
    fault("tile_ready before the prefetches ended and a group_barrier passed");
  }
  current_group->tiles().arrive(&barrier);
  barrier.state = kReady;
}

const uchar* tile_block(TileBarrier& barrier, uint slot, const uchar* from) {
  TileMemory& tiles = current_group->tiles();
  if (barrier.state != kReady) fault("tile_block before tile_ready");
  if (!tiles.holds(slot, 1) || tiles.source(slot) != from)
    fault("tile_block of a block that was not prefetched there");
  return tiles.block(slot);
}

Statistics run(const Kernel& kernel, const void* arguments, Grid grid, LaneOrder order, ThreadPool* pool) {
  check_limits(kernel);
  const std::int64_t total = static_cast<std::int64_t>(grid.x) * grid.y * grid.z;
  const auto run_range = [&](std::int64_t begin, std::int64_t end) {
    Threadgroup group(kernel, arguments, order);
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<std::uint64_t>(order == LaneOrder::backward ? total - 1 - i : i);
      group.run({static_cast<uint>(at % grid.x), static_cast<uint>(at / grid.x % grid.y),
                 static_cast<uint>(at / grid.x / grid.y)});
    }
    return group.statistics();
  };
  if (pool == nullptr) return run_range(0, total);

  std::vector<Statistics> sums(static_cast<std::size_t>(pool->size()));
  pool->parallel_for(total, (total + pool->size() - 1) / pool->size(),
                     [&](std::int64_t begin, std::int64_t end, int thread) {
                       const Statistics part = run_range(begin, end);
                       Statistics& sum = sums[static_cast<std::size_t>(thread)];
                       sum.threadgroups += part.threadgroups;
                       sum.meetings += part.meetings;
                       sum.switches += part.switches;
                     });
  Statistics sum;
  for (const Statistics& part : sums) {
    sum.threadgroups += part.threadgroups;
    sum.meetings += part.meetings;
    sum.switches += part.switches;
  }
  return sum;
}

}  // namespace lily::gpu::emulator
