// The classes of characters, from utf8proc's general categories.
#include "text/pretokenizer_classes.hpp"

#include <utf8proc.h>

#include <vector>

namespace lily::text {
namespace {

CharClass class_of_category(utf8proc_category_t category) {
  switch (category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharClass::letter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return CharClass::mark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharClass::number;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharClass::space;
    default:
      return CharClass::other;
  }
}

std::vector<CharClass> make_classes() {
  constexpr std::size_t kCodePoints = 0x110000;
  std::vector<CharClass> classes(kCodePoints);
  for (std::size_t i = 0; i < kCodePoints; ++i) {
    classes[i] = class_of_category(utf8proc_category(static_cast<utf8proc_int32_t>(i)));
  }
  // White_Space is the separators and these controls.
  for (const std::size_t control : {0x09, 0x0B, 0x0C, 0x85}) classes[control] = CharClass::space;
  for (const std::size_t newline : {0x0A, 0x0D}) classes[newline] = CharClass::newline;
  return classes;
}

}  // namespace

const CharClass* char_classes() {
  static const std::vector<CharClass> classes = make_classes();
  return classes.data();
}

}  // namespace lily::text
