// Tiles of AMX. Written as instructions, because GCC 12's _tile_loadd does not tell the compiler that it
// reads memory, and its macros take no template arguments.
#pragma once

#include <cstddef>
#include <cstdint>

namespace {

// Configures the thread's eight tiles; destroying gives their state up, so that switching threads is cheap
// again.
class AmxTiles {
 public:
  AmxTiles() {
    Configuration all;
    for (int tile = 0; tile < 8; ++tile) {
      all.row_bytes[tile] = 64;
      all.rows[tile] = 16;
    }
    asm volatile("ldtilecfg %0" : : "m"(all));
  }
  ~AmxTiles() { asm volatile("tilerelease"); }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;

  template <int kTile>
  void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  template <int kTile>
  void load(const void* base, std::ptrdiff_t stride) {
    asm volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "i"(kTile), "r"(base), "r"(stride) : "memory");
  }
  // Without a place in the nearest cache.
  template <int kTile>
  void load_once(const void* base, std::ptrdiff_t stride) {
    asm volatile("tileloaddt1 (%1,%2,1), %%tmm%c0" : : "i"(kTile), "r"(base), "r"(stride) : "memory");
  }
  template <int kTile>
  void store(void* base) const {
    asm volatile("tilestored %%tmm%c0, (%1,%2,1)"
                 :
                 : "i"(kTile), "r"(base), "r"(std::ptrdiff_t{64})
                 : "memory");
  }
  template <int kSum, int kLeft, int kRight>
  void dot() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kLeft), "i"(kRight));
  }
  template <int kSum, int kLeft, int kRight>
  void dot_bf16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kLeft), "i"(kRight));
  }

 private:
  // The layout of ldtilecfg's operand.
  struct Configuration {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {};
    std::uint8_t rows[16] = {};
  };
  static_assert(sizeof(Configuration) == 64);
};

}  // namespace
