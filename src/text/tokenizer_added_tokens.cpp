// Finding added tokens in raw text.
#include "text/tokenizer_added_tokens.hpp"

#include <algorithm>
#include <utility>

namespace lily::text {
namespace {

std::size_t first_byte(std::string_view text) { return static_cast<unsigned char>(text.front()); }

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) {
    if (first_byte(a.text) != first_byte(b.text)) return first_byte(a.text) < first_byte(b.text);
    return a.text.size() > b.text.size();
  });
  for (const AddedToken& token : tokens_) ids_.push_back(token.id);
  std::sort(ids_.begin(), ids_.end());
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    Range& range = by_first_byte_[first_byte(tokens_[i].text)];
    if (range.end == 0) range.begin = i;
    range.end = i + 1;
  }
  if (!tokens_.empty() && first_byte(tokens_.front().text) == first_byte(tokens_.back().text)) {
    only_first_byte_ = tokens_.front().text.front();
  }
}

std::optional<AddedTokens::Match> AddedTokens::find(std::string_view text, std::size_t from) const noexcept {
  if (tokens_.empty()) return std::nullopt;
  for (std::size_t i = from; i < text.size(); ++i) {
    if (only_first_byte_) {
      i = text.find(*only_first_byte_, i);
      if (i == std::string_view::npos) break;
    }
    if (const AddedToken* token = match_at(text.substr(i))) return Match{i, token};
  }
  return std::nullopt;
}

const AddedToken* AddedTokens::match_at(std::string_view text) const noexcept {
  const Range range = by_first_byte_[first_byte(text)];
  for (std::size_t i = range.begin; i < range.end; ++i) {
    if (text.starts_with(tokens_[i].text)) return &tokens_[i];
  }
  return nullptr;
}

std::optional<TokenId> AddedTokens::id_of(std::string_view text) const noexcept {
  if (text.empty()) return std::nullopt;
  const AddedToken* token = match_at(text);
  if (token == nullptr || token->text != text) return std::nullopt;
  return token->id;
}

bool AddedTokens::contains(TokenId id) const noexcept {
  return std::binary_search(ids_.begin(), ids_.end(), id);
}

}  // namespace lily::text
