// Tokens that stand outside BPE, such as "<|im_start|>": found in raw text as whole literals.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lily/text.hpp"

namespace lily::text {

struct AddedToken {
  TokenId id = 0;
  std::string text;
};

class AddedTokens {
 public:
  // Texts are not empty and differ.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Match {
    std::size_t begin = 0;
    const AddedToken* token = nullptr;
  };
  // The leftmost literal from `from` on, the longest of those that begin there.
  std::optional<Match> find(std::string_view text, std::size_t from) const noexcept;

  std::optional<TokenId> id_of(std::string_view text) const noexcept;
  bool contains(TokenId id) const noexcept;

 private:
  const AddedToken* match_at(std::string_view text) const noexcept;

  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  std::vector<TokenId> ids_;                // sorted
  std::vector<AddedToken> tokens_;          // by first byte, then longest first
  std::array<Range, 256> by_first_byte_{};  // ranges of tokens_
  std::optional<char> only_first_byte_;     // when all begin alike, the text is searched for it by memchr
};

}  // namespace lily::text
