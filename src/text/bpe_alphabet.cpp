// The byte alphabet of byte-level BPE.
#include "text/bpe_alphabet.hpp"

#include <array>
#include <cstdint>

namespace lily::text {
namespace {

// Printable bytes of Latin-1 stand for themselves; the others, in order, are written U+0100 and on.
constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
}

constexpr std::size_t kAlphabetEnd = 0x144;
constexpr std::int16_t kNoByte = -1;

constexpr std::array<std::int16_t, kAlphabetEnd> make_alphabet() {
  std::array<std::int16_t, kAlphabetEnd> bytes{};
  bytes.fill(kNoByte);
  std::size_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    bytes[stands_for_itself(byte) ? byte : next++] = static_cast<std::int16_t>(byte);
  }
  return bytes;
}

constexpr auto kByteOf = make_alphabet();

}  // namespace

bool append_spelled_bytes(std::string_view token, std::string& bytes) {
  for (std::size_t i = 0; i < token.size(); ++i) {
    unsigned code_point = static_cast<unsigned char>(token[i]);
    if (code_point >= 0x80) {  // the whole alphabet has at most two bytes of UTF-8
      if (code_point < 0xC2 || code_point > 0xDF || ++i == token.size()) return false;
      const unsigned next = static_cast<unsigned char>(token[i]);
      if ((next & 0xC0U) != 0x80) return false;
      code_point = ((code_point & 0x1FU) << 6) | (next & 0x3FU);
    }
    if (code_point >= kAlphabetEnd || kByteOf[code_point] == kNoByte) return false;
    bytes.push_back(static_cast<char>(kByteOf[code_point]));
  }
  return true;
}

}  // namespace lily::text
