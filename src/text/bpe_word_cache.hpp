// A bounded memory of the tokens of words met before, by far most of any text.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "lily/text.hpp"

namespace lily::text {

// Words are compared and hashed as a few machine words whose last byte is the length: no key is all zero.
// `of` takes a word of 1 to kMaxBytes bytes; `available` counts the bytes that may be read at `word`.

// Nearly every word of a text: worth code without any loop.
struct ShortWordKey {
  static constexpr std::size_t kMaxBytes = 15;
  std::uint64_t low = 0;
  std::uint64_t high = 0;

  static ShortWordKey of(const char* word, std::size_t size, std::size_t available) noexcept {
    static_assert(std::endian::native == std::endian::little, "the masks below keep a word's first bytes");
    std::array<std::uint64_t, 2> words{};
    std::memcpy(words.data(), word, available >= sizeof words ? sizeof words : size);
    const std::uint64_t all = ~std::uint64_t{0};
    ShortWordKey key;
    key.low = size >= 8 ? words[0] : words[0] & (all >> (64 - 8 * size));
    key.high = size <= 8 ? 0 : words[1] & (all >> (128 - 8 * size));
    key.high |= std::uint64_t{size} << 56;
    return key;
  }

  std::uint64_t hash() const noexcept {
    std::uint64_t mixed = low * 0x9E3779B97F4A7C15U ^ std::rotl(high * 0xC2B2AE3D27D4EB4FU, 31);
    mixed ^= mixed >> 32;
    return mixed * 0xD6E8FEB86659FD93U;
  }

  friend bool operator==(const ShortWordKey&, const ShortWordKey&) = default;
};

// The indentation of code, rules of dashes, long identifiers.
struct LongWordKey {
  static constexpr std::size_t kMaxBytes = 63;
  std::array<std::uint64_t, 8> words{};

  static LongWordKey of(const char* word, std::size_t size, std::size_t /*available*/) noexcept {
    LongWordKey key;
    std::memcpy(key.words.data(), word, size);
    key.words.back() |= std::uint64_t{size} << 56;
    return key;
  }

  std::uint64_t hash() const noexcept {
    std::uint64_t mixed = 0;
    for (const std::uint64_t word : words) mixed = (std::rotl(mixed, 31) ^ word) * 0x9E3779B97F4A7C15U;
    mixed ^= mixed >> 32;
    return mixed * 0xD6E8FEB86659FD93U;
  }

  friend bool operator==(const LongWordKey&, const LongWordKey&) = default;
};

// Every key has one of 2^kBits places; a new word replaces the one it meets there.
template <typename Key, unsigned kBits>
class WordCache {
 public:
  static constexpr std::size_t kMaxWordBytes = Key::kMaxBytes;
  static constexpr std::size_t kMaxTokens = 4;

  struct Entry {
    Key key;
    std::array<TokenId, kMaxTokens> ids{};
    std::size_t count() const noexcept {
      return 1U + (ids[1] >= 0) + (ids[2] >= 0) + (ids[3] >= 0);  // unused places are negative
    }
  };

  WordCache() : entries_(std::size_t{1} << kBits) {}

  static Key key_of(const char* word, std::size_t size, std::size_t available) noexcept {
    return Key::of(word, size, available);
  }
  Entry& entry(const Key& key) noexcept { return entries_[key.hash() >> (64 - kBits)]; }

 private:
  std::vector<Entry> entries_;
};

using ShortWordCache = WordCache<ShortWordKey, 16>;  // 2 MiB
using LongWordCache = WordCache<LongWordKey, 11>;    // 160 KiB

}  // namespace lily::text
