// Repacking of the checkpoint's affine rows into blocks of 16 interleaved rows.
#pragma once

#include <cstddef>

#include "backend/cpu/kernels.hpp"

namespace lily::cpu {

// Up to 16 rows of one tensor of an affine matrix, as the checkpoint stores them (docs/model.md, "Affine
// quantization"). Nothing is assumed of their alignment.
struct StoredRows {
  const std::byte* first = nullptr;
  std::size_t stride = 0;  // bytes from row to row
  int rows = 0;
  int groups = 0;  // of 64 columns, from `first` on
};

// A block (see PackedMatrix) that is zero before is written one tensor at a time, in any order, because a
// file keeps them many megabytes apart. Lanes without a row stay zero, and so does the high plane of 4-bit
// codes in a matrix of two planes.
void pack_codes(const StoredRows& codes, int bits, int planes, std::byte* block);

enum class Factor { scale, bias };
// A factor of a group of 128 columns is written twice.
void pack_factors(const StoredRows& factors, Factor factor, int group_size, int planes, std::byte* block);

}  // namespace lily::cpu
