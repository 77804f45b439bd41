// NFC: a quick check finds the few places that may change, utf8proc decides them.
#include "text/normalizer.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "text/utf8.hpp"

namespace lily::text {
namespace {

constexpr std::size_t kCodePoints = 0x110000;
constexpr auto kDecompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

// What the quick check of Unicode annex 15 asks of a code point: its combining class, or kUnsure when it
// never appears in NFC or may join a character before it.
constexpr std::uint8_t kUnsure = 255;

int decompose(char32_t code_point, std::array<utf8proc_int32_t, 32>& out) {
  int boundary_class = 0;
  return static_cast<int>(utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point), out.data(),
                                                  static_cast<utf8proc_ssize_t>(out.size()), kDecompose,
                                                  &boundary_class));
}

std::vector<std::uint8_t> make_quick_check() {
  std::vector<std::uint8_t> table(kCodePoints);
  std::vector<char32_t> composed;
  for (char32_t code_point = 0; code_point < kCodePoints; ++code_point) {
    const auto* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point));
    table[code_point] = static_cast<std::uint8_t>(property->combining_class);
    const bool hangul = code_point >= 0xAC00 && code_point <= 0xD7A3;
    const bool canonical = property->decomp_type == 0 && property->decomp_seqindex != UINT16_MAX;
    if (hangul || canonical) composed.push_back(code_point);
  }
  for (const char32_t code_point : composed) {
    // Everything behind the first place of a decomposition may compose with what stands before it.
    std::array<utf8proc_int32_t, 32> parts{};
    const int count = decompose(code_point, parts);
    for (int i = 1; i < count; ++i) table[static_cast<std::size_t>(parts[i])] = kUnsure;
    if (utf8proc_normalize_utf32(parts.data(), count, kCompose) != 1 ||
        static_cast<char32_t>(parts[0]) != code_point) {
      table[code_point] = kUnsure;
    }
  }
  return table;
}

const std::uint8_t* quick_check() {
  static const std::vector<std::uint8_t> kTable = make_quick_check();
  return kTable.data();
}

// Appends the NFC of a stretch that stands between two characters that join nothing before them. utf8proc's
// own ordering of combining marks takes quadratic time, so the marks are sorted here.
void append_nfc(const unsigned char* at, const unsigned char* end, std::string& out) {
  struct Part {
    utf8proc_int32_t code_point;
    int combining_class;
  };
  std::vector<Part> parts;
  std::array<utf8proc_int32_t, 32> decomposed{};
  while (at < end) {
    const int count = decompose(next_code_point(at), decomposed);
    for (int i = 0; i < count; ++i) {
      parts.push_back({decomposed[i], utf8proc_get_property(decomposed[i])->combining_class});
    }
  }
  const auto is_starter = [](const Part& part) { return part.combining_class == 0; };
  for (auto first = parts.begin(); first != parts.end();) {
    first = std::find_if_not(first, parts.end(), is_starter);
    const auto last = std::find_if(first, parts.end(), is_starter);
    std::stable_sort(first, last,
                     [](const Part& a, const Part& b) { return a.combining_class < b.combining_class; });
    first = last;
  }
  std::vector<utf8proc_int32_t> code_points(parts.size());
  std::transform(parts.begin(), parts.end(), code_points.begin(),
                 [](const Part& part) { return part.code_point; });
  const auto count = utf8proc_normalize_utf32(code_points.data(), std::ssize(code_points), kCompose);
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    std::array<utf8proc_uint8_t, 4> bytes{};
    const auto length = utf8proc_encode_char(code_points[static_cast<std::size_t>(i)], bytes.data());
    out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(length));
  }
}

// Every code point below U+0300 is in NFC and joins nothing before it; its bytes are all below this one.
constexpr unsigned char kFirstLeadToCheck = 0xCC;

}  // namespace

std::string_view to_nfc(std::string_view valid_utf8, std::string& storage) {
  const auto* const begin = reinterpret_cast<const unsigned char*>(valid_utf8.data());
  const auto* const end = begin + valid_utf8.size();
  const auto* at = std::find_if(begin + ascii_prefix(valid_utf8), end,
                                [](unsigned char byte) { return byte >= kFirstLeadToCheck; });
  if (at == end) return valid_utf8;

  const std::uint8_t* const table = quick_check();
  // The stretch to normalize begins with the last character that joins nothing before it.
  const auto* stretch = at;
  while (stretch > begin && (*--stretch & 0xC0U) == 0x80U) {
  }
  const auto* copied = begin;
  bool changed = false;
  std::uint8_t last_class = 0;
  while (at < end) {
    const auto* const here = at;
    const std::uint8_t combining_class = table[next_code_point(at)];
    if (combining_class == 0) {
      stretch = here;
      last_class = 0;
      continue;
    }
    if (combining_class != kUnsure && combining_class >= last_class) {
      last_class = combining_class;
      continue;
    }
    const auto* next = at;
    while (at < end && table[next_code_point(next)] != 0) at = next;
    if (!changed) storage.clear();
    changed = true;
    storage.append(reinterpret_cast<const char*>(copied), static_cast<std::size_t>(stretch - copied));
    append_nfc(stretch, at, storage);
    copied = stretch = at;
    last_class = 0;
  }
  if (!changed) return valid_utf8;
  storage.append(reinterpret_cast<const char*>(copied), static_cast<std::size_t>(end - copied));
  return storage;
}

}  // namespace lily::text
