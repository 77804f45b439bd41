// Expert routing: integers exactly, weights against the reference's softmax.
#include "backend/reference/router.hpp"
#include "gpu/device_test.hpp"
#include "gpu/tolerances.hpp"

namespace lily::gpu {
namespace {

class Routing : public DeviceTest {
 protected:
  // Logits with ties.
  std::vector<float> logits(std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values)
      value = static_cast<float>(static_cast<int>(random_bits() % 4001) - 2000) / 500;
    return values;
  }
};

TEST_P(Routing, TopExpertsAgreeWithTheReference) {
  struct Shape {
    uint experts, picks, stride;
  };
  for (const Shape shape : {Shape{256, 8, 272}, Shape{12, 4, 16}, Shape{32, 8, 48}, Shape{255, 1, 256}}) {
    for (const uint tokens : {1U, 4U, 37U}) {
      const std::vector<float> values = logits(std::size_t{tokens} * shape.stride);
      TopExperts a{};
      a.logits = upload(values);
      auto* experts = room<uint>(std::size_t{tokens} * shape.picks);
      auto* weights = room<float>(std::size_t{tokens} * shape.picks);
      a.expert = experts;
      a.weight = weights;
      a.tokens = tokens;
      a.experts = shape.experts;
      a.picks = shape.picks;
      a.stride = shape.stride;
      run(a, {divide_up(tokens, TopExperts::tokens_per_group)});
      const auto found = download(experts, std::size_t{tokens} * shape.picks);
      const auto weight = download(weights, std::size_t{tokens} * shape.picks);
      for (uint token = 0; token < tokens; ++token) {
        const auto row = std::span(values).subspan(std::size_t{token} * shape.stride, shape.experts);
        const auto choices = reference::choose_experts(row, static_cast<int>(shape.picks));
        for (uint pick = 0; pick < shape.picks; ++pick) {
          ASSERT_EQ(found[token * shape.picks + pick], static_cast<uint>(choices[pick].expert));
          ASSERT_NEAR(weight[token * shape.picks + pick], choices[pick].weight, tolerance::kSoftmaxWeight);
        }
      }
    }
  }
}

TEST_P(Routing, AssignmentsAreSortedByExpertInOrder) {
  for (const std::size_t n : {1U, 8U, 255U, 256U, 257U, 1000U}) {
    std::vector<uint> experts(n);
    for (uint& expert : experts) expert = random_bits() % 100 < 30 ? 7 : random_bits() % 256;
    const uint* list = upload(experts);
    auto* count = zeros<uint>(256);
    auto* offset = room<uint>(257);
    auto* order = room<uint>(n);
    run(CountExperts{list, reinterpret_cast<atomic_uint*>(count), static_cast<uint>(n)}, {divide_up(n, 256)});
    run(ExpertOffsets{count, offset}, {1});
    run(SortByExpert{list, offset, order, static_cast<uint>(n)},
        {SortByExpert::max_experts / SortByExpert::experts_per_group});

    std::vector<uint> expected(n);
    for (std::size_t i = 0; i < n; ++i) expected[i] = static_cast<uint>(i);
    std::stable_sort(expected.begin(), expected.end(),
                     [&](uint a, uint b) { return experts[a] < experts[b]; });
    EXPECT_EQ(download(order, n), expected);
    const auto offsets = download(offset, 257);
    for (uint expert = 0; expert <= 256; ++expert) {
      const auto before = std::count_if(experts.begin(), experts.end(), [&](uint e) { return e < expert; });
      ASSERT_EQ(offsets[expert], static_cast<uint>(before)) << expert;
    }
  }
}

LILY_FOR_ALL_DEVICES(Routing);

}  // namespace
}  // namespace lily::gpu
