// The benchmark's prompt and digest.
#include "engine/synthetic_prompt.hpp"

#include <fmt/format.h>

namespace lily::engine {

std::vector<TokenId> synthetic_ids(int first, int count, int vocabulary) {
  constexpr std::uint32_t kMultiplier = 2654435761U;  // 2^32 / golden ratio
  std::vector<TokenId> ids(static_cast<std::size_t>(count));
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(count); ++i) {
    const std::uint32_t spread = (static_cast<std::uint32_t>(first) + i) * kMultiplier;  // modulo 2^32
    ids[i] = static_cast<TokenId>(spread % static_cast<std::uint32_t>(vocabulary));
  }
  return ids;
}

std::string digest(std::span<const TokenId> ids) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const TokenId id : ids) hash = (hash ^ static_cast<std::uint32_t>(id)) * 0x100000001b3U;
  return fmt::format("{:016x}", hash);
}

}  // namespace lily::engine
