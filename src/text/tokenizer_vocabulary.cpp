// The tokens of a vocabulary.
#include "text/tokenizer_vocabulary.hpp"

#include <algorithm>
#include <bit>
#include <functional>

namespace lily::text {

bool Vocabulary::add(TokenId id, std::string_view bytes) {
  const auto index = static_cast<std::size_t>(id);
  if (index >= spans_.size()) spans_.resize(index + 1);
  Span& span = spans_[index];
  if (span.length != 0) return false;
  span = {static_cast<std::uint32_t>(bytes_.size()), static_cast<std::uint32_t>(bytes.size())};
  bytes_.append(bytes);
  longest_ = std::max(longest_, bytes.size());
  return true;
}

std::string_view Vocabulary::bytes(TokenId id) const noexcept {
  if (id < 0 || static_cast<std::size_t>(id) >= spans_.size()) return {};
  const Span& span = spans_[static_cast<std::size_t>(id)];
  return std::string_view(bytes_).substr(span.begin, span.length);
}

std::vector<std::uint32_t> Vocabulary::lengths() const {
  std::vector<std::uint32_t> lengths(spans_.size());
  std::transform(spans_.begin(), spans_.end(), lengths.begin(), [](const Span& span) { return span.length; });
  return lengths;
}

void Vocabulary::reserve(std::size_t ids, std::size_t bytes) {
  spans_.reserve(ids);
  bytes_.reserve(bytes);
}

bool VocabularyIndex::add(TokenId id) {
  if ((count_ + 1) * 2 > slots_.size()) rehash(std::max<std::size_t>(slots_.size() * 2, 16));
  const std::string_view bytes = vocabulary_->bytes(id);
  const std::uint32_t hash = hash_of(bytes);
  Slot& slot = slots_[find_slot(bytes, hash)];
  if (slot.id >= 0) return false;
  slot = {hash, id};
  ++count_;
  return true;
}

std::optional<TokenId> VocabularyIndex::find(std::string_view bytes) const {
  if (slots_.empty()) return std::nullopt;
  const Slot& slot = slots_[find_slot(bytes, hash_of(bytes))];
  if (slot.id < 0) return std::nullopt;
  return slot.id;
}

void VocabularyIndex::reserve(std::size_t tokens) {
  const std::size_t slots = std::bit_ceil(tokens * 2);
  if (slots > slots_.size()) rehash(slots);
}

std::uint32_t VocabularyIndex::hash_of(std::string_view bytes) noexcept {
  return static_cast<std::uint32_t>(std::hash<std::string_view>{}(bytes));
}

// The slot of the token with these bytes, or the free one where it belongs.
std::size_t VocabularyIndex::find_slot(std::string_view bytes, std::uint32_t hash) const noexcept {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.id < 0 || (slot.hash == hash && vocabulary_->bytes(slot.id) == bytes)) return i;
  }
}

void VocabularyIndex::rehash(std::size_t slots) {
  std::vector<Slot> old(slots);
  old.swap(slots_);
  const std::size_t mask = slots - 1;
  for (const Slot& slot : old) {
    if (slot.id < 0) continue;
    std::size_t i = slot.hash & mask;
    while (slots_[i].id >= 0) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

}  // namespace lily::text
