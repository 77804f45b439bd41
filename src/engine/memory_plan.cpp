// The memory of an engine, added up before it is taken.
#include "engine/memory_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lily/error.hpp"

namespace lily::engine {
namespace {

constexpr int kDefaultContext = 32768;

double mib(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

int largest_context(const MemoryNeeds& needs, std::uint64_t limit, int upper) {
  int fits = 0;
  int fails = upper + 1;
  while (fails - fits > 1) {
    const int middle = fits + (fails - fits) / 2;
    (needs.weights + needs.scratch + needs.sequence(middle) <= limit ? fits : fails) = middle;
  }
  return fits;
}

}  // namespace

int resolve_context(const model::Dimensions& dims, int requested) {
  return requested > 0 ? requested : std::min(kDefaultContext, dims.max_positions);
}

void check_plan(const MemoryNeeds& needs, const model::Dimensions& dims, int context,
                std::uint64_t available) {
  const std::uint64_t sequence = needs.sequence(context);
  const std::uint64_t total = needs.weights + sequence + needs.scratch;
  if (total > available) {
    const int fitting = largest_context(needs, available, dims.max_positions);
    throw Error(ErrorKind::out_of_memory,
                fmt::format("a context of {} tokens needs {:.1f} MiB (weights {:.1f}, sequence state {:.1f}, "
                            "scratch {:.1f}) and {:.1f} MiB are available; {}",
                            context, mib(total), mib(needs.weights), mib(sequence), mib(needs.scratch),
                            mib(available),
                            fitting > 0 ? fmt::format("the largest context that fits is {} tokens", fitting)
                                        : "no context fits"));
  }
  if (context > dims.max_positions) {
    throw Error(ErrorKind::unsupported,
                fmt::format("a context of {} tokens is beyond the model's {} positions", context,
                            dims.max_positions));
  }
}

}  // namespace lily::engine
