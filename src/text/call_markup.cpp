// Bounded look ahead over the tags of tool calls.
#include "text/call_markup.hpp"

#include <algorithm>

namespace lily::text {
namespace {

constexpr std::size_t kMaxName = 256;  // bytes of a function's or a parameter's name
constexpr std::size_t kMaxGap = 64;    // bytes of white space between two tags that belong together

bool in_name(char c) { return c != '<' && c != '>' && static_cast<unsigned char>(c) > ' '; }

}  // namespace

Match MarkupView::literal(std::size_t at, std::string_view tag) const {
  const std::string_view rest = text_.substr(std::min(at, text_.size()), tag.size());
  if (rest == tag) return Match::yes;
  return !final_ && tag.starts_with(rest) ? Match::unsure : Match::no;
}

Match MarkupView::followed_by(std::size_t at, std::initializer_list<std::string_view> tags,
                              bool or_end) const {
  const std::size_t limit = at + kMaxGap;
  while (at < text_.size() && kMarkupSpace.find(text_[at]) != std::string_view::npos) {
    if (++at > limit) return or_end ? Match::yes : Match::no;  // so much space is an end
  }
  if (at >= text_.size() && final_) return or_end ? Match::yes : Match::no;
  Match best = Match::no;
  for (const std::string_view tag : tags) best = std::max(best, literal(at, tag));
  return best;
}

NamedTag MarkupView::named_tag(std::size_t at, std::string_view open) const {
  const Match opens = literal(at, open);
  if (opens != Match::yes) return {.match = opens, .name = {}};
  const std::size_t begin = at + open.size();
  std::size_t end = begin;
  while (end < text_.size() && end - begin <= kMaxName && in_name(text_[end])) ++end;
  if (end == text_.size() && end - begin <= kMaxName)
    return {.match = final_ ? Match::no : Match::unsure, .name = {}};
  if (end == begin || end - begin > kMaxName || text_[end] != '>') return {};
  return {.match = Match::yes, .name = text_.substr(begin, end - begin), .end = end + 1};
}

NamedTag MarkupView::function(std::size_t at) const {
  NamedTag tag = named_tag(at, kFunctionOpen);
  if (tag.match == Match::yes) {
    tag.match = followed_by(tag.end, {kParameterOpen, kFunctionClose, kCallClose}, false);
  }
  return tag;
}

NamedTag MarkupView::parameter(std::size_t at) const { return named_tag(at, kParameterOpen); }

}  // namespace lily::text
