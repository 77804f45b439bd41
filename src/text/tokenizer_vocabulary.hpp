// The tokens of a vocabulary: their bytes by id, and while a file is read, their ids by bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lily/text.hpp"

namespace lily::text {

class Vocabulary {
 public:
  // Gives `id` its bytes, not empty. False when it has some already. All bytes together stay below 4 GiB.
  bool add(TokenId id, std::string_view bytes);
  // Empty for ids without a token.
  std::string_view bytes(TokenId id) const noexcept;
  // One more than the highest id that has a token.
  std::size_t size() const noexcept { return spans_.size(); }
  std::vector<std::uint32_t> lengths() const;
  std::size_t longest() const noexcept { return longest_; }  // bytes of a token
  void reserve(std::size_t ids, std::size_t bytes);

 private:
  struct Span {
    std::uint32_t begin = 0;
    std::uint32_t length = 0;
  };
  std::vector<Span> spans_;
  std::string bytes_;
  std::size_t longest_ = 0;
};

// Ids by bytes, over a vocabulary that outlives it.
class VocabularyIndex {
 public:
  explicit VocabularyIndex(const Vocabulary& vocabulary) : vocabulary_(&vocabulary) {}

  // Enters a token that the vocabulary has. False when another id has the same bytes.
  bool add(TokenId id);
  std::optional<TokenId> find(std::string_view bytes) const;
  void reserve(std::size_t tokens);

 private:
  struct Slot {
    std::uint32_t hash = 0;
    TokenId id = -1;
  };
  static std::uint32_t hash_of(std::string_view bytes) noexcept;
  std::size_t find_slot(std::string_view bytes, std::uint32_t hash) const noexcept;
  void rehash(std::size_t slots);

  const Vocabulary* vocabulary_;
  std::vector<Slot> slots_;  // open addressing, at most half full, a power of two
  std::size_t count_ = 0;
};

}  // namespace lily::text
