// Plans: dependency levels from declared reads and writes, and that a missing declaration shows.
#include "backend/gpu/plan.hpp"

#include <gmock/gmock.h>

#include <cmath>

#include "gpu/device_test.hpp"

namespace lily::gpu {
namespace {

using ::testing::ElementsAre;

// Levels of dispatches over cells of one array, each given as (reads, writes).
struct Step {
  std::initializer_list<Region> reads, writes;
};

TEST(PlanLevels, FollowReadsAndWrites) {
  std::array<float, 8> cells{};
  const auto cell = [&](std::size_t first, std::size_t count = 1) {
    return region(cells.data() + first, count);
  };
  const auto levels = [](std::initializer_list<Step> steps) {
    Plan plan;
    for (const Step& step : steps) plan.add(CountExperts{}, {1}, step.reads, step.writes);
    return std::vector<int>(plan.levels().begin(), plan.levels().end());
  };
  // Independent; read after write; write after write; write after read.
  EXPECT_THAT(levels({{{}, {cell(0)}}, {{}, {cell(1)}}}), ElementsAre(0, 0));
  EXPECT_THAT(levels({{{}, {cell(0)}}, {{cell(0)}, {cell(1)}}}), ElementsAre(0, 1));
  EXPECT_THAT(levels({{{}, {cell(0)}}, {{}, {cell(0)}}}), ElementsAre(0, 1));
  EXPECT_THAT(levels({{{cell(0)}, {cell(1)}}, {{}, {cell(0)}}}), ElementsAre(0, 1));
  // Two readers share a level; neighbours do not touch, parts of a range do.
  EXPECT_THAT(
      levels(
          {{{}, {cell(0)}}, {{cell(0)}, {cell(1)}}, {{cell(0)}, {cell(2)}}, {{cell(1), cell(2)}, {cell(3)}}}),
      ElementsAre(0, 1, 1, 2));
  EXPECT_THAT(levels({{{}, {cell(0, 4)}}, {{}, {cell(4, 4)}}, {{cell(3)}, {}}, {{cell(3, 2)}, {}}}),
              ElementsAre(0, 0, 1, 1));
  // A late dispatch that depends on nothing joins the first level.
  EXPECT_THAT(levels({{{}, {cell(0)}}, {{cell(0)}, {cell(0)}}, {{}, {cell(7)}}}), ElementsAre(0, 1, 0));
}

// The routing chain of four kernels, with one declaration left out on request.
class PlanOrder : public ::testing::Test {
 protected:
  std::vector<uint> order_of(emulator::LaneOrder order, int left_out) {
    constexpr uint kTokens = 16, kExperts = 256, kPicks = 8, kCount = kTokens * kPicks;
    const auto device = emulator::open_device(1, order);
    std::vector<float> logits(kTokens * kExperts);
    for (std::size_t i = 0; i < logits.size(); ++i)
      logits[i] = static_cast<float>(std::sin(static_cast<double>(i * i)));
    const auto memory = [&](std::size_t bytes) { return device->allocate(bytes, "test"); };
    const DeviceMemory input = memory(logits.size() * sizeof(float)), experts = memory(kCount * 4),
                       weights = memory(kCount * 4), counts = memory(kExperts * 4), offsets = memory(257 * 4),
                       sorted = memory(2 * kCount * 4);  // with wrong offsets the list may begin at its end
    device->write(input.address(), std::as_bytes(std::span(logits)));
    const Region expert_list = region(experts.as<uint>(), kCount),
                 count_list = region(counts.as<uint>(), kExperts),
                 offset_list = region(offsets.as<uint>(), 257),
                 order_list = region(sorted.as<uint>(), kCount);
    Plan plan;
    plan.add(TopExperts{input.as<float>(), experts.as<uint>(), weights.as<float>(), kTokens, kExperts, kPicks,
                        kExperts},
             {kTokens / 4}, {},
             {left_out == 1 ? Region{} : expert_list, region(weights.as<float>(), kCount)});
    plan.add(CountExperts{experts.as<uint>(), counts.as<atomic_uint>(), kCount}, {1}, {expert_list},
             {count_list});
    plan.add(ExpertOffsets{counts.as<uint>(), offsets.as<uint>()}, {1},
             {left_out == 2 ? Region{} : count_list}, {offset_list, left_out == 2 ? Region{} : count_list});
    plan.add(SortByExpert{experts.as<uint>(), offsets.as<uint>(), sorted.as<uint>(), kCount}, {64},
             {expert_list, left_out == 3 ? Region{} : offset_list}, {order_list});
    EXPECT_EQ(plan.level_count() == 4, left_out == 0);
    device->run(plan);
    device->finish();
    std::vector<uint> result(kCount);
    device->read(sorted.address(), std::as_writable_bytes(std::span(result)));
    return result;
  }
};

TEST_F(PlanOrder, IsTheRecordedOrderWhereEverythingIsDeclared) {
  using emulator::LaneOrder;
  const auto expected = order_of(LaneOrder::forward, 0);
  EXPECT_EQ(order_of(LaneOrder::backward, 0), expected);
  EXPECT_EQ(order_of(LaneOrder::shuffled, 0), expected);
}

TEST_F(PlanOrder, AMissingDeclarationChangesTheResult) {
  using emulator::LaneOrder;
  for (const int left_out : {1, 2, 3}) {
    const auto expected = order_of(LaneOrder::forward, left_out);
    EXPECT_NE(order_of(LaneOrder::backward, left_out), expected) << left_out;
  }
}

}  // namespace
}  // namespace lily::gpu
