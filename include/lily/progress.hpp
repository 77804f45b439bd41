// How long work reports how far it is. Shown by the command line, ignored by default.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace lily {

// Called with the name of the work ("loading weights"), the amount done and the total, in `unit`
// ("bytes", "tokens"). Calls come from one thread at a time; `done` never decreases within one work.
using Progress = std::function<void(std::string_view work, std::uint64_t done, std::uint64_t total,
                                    std::string_view unit)>;

}  // namespace lily
