// Prefill on tiles, with the tiles in plain C++, against prefill without them: DeltaNet and attention, and
// matrices with rows in the formats of AMX.
#include "backend/cpu/simd/generic.hpp"
#include "backend/cpu/simd/plain_tiles.hpp"
// The bodies use Simd, so they come after it.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "backend/cpu/body/tile_attention.hpp"
#include "backend/cpu/body/tile_delta_net.hpp"
#include "backend/cpu/body/tile_matmul.hpp"
#include "backend/cpu/body/wide_matmul.hpp"
#include "backend/cpu/forward.hpp"
#include "backend/cpu/select.hpp"
#include "backend/cpu/simd/plain_wide_words.hpp"
#include "backend/cpu/simd/plain_words.hpp"
#include "support/fixtures.hpp"

namespace lily::cpu {
namespace {

using Logits = std::vector<std::vector<float>>;  // [position][vocabulary]

// This machine's kernels but for the mixers.
Kernels without_tiles() {
  Kernels kernels = select_kernels({});
  kernels.delta_net_heads = nullptr;
  kernels.attend_group = nullptr;
  return kernels;
}
Kernels on_tiles() {
  Kernels kernels = without_tiles();
  kernels.delta_net_heads = [](const DeltaNetRun* runs, int heads) {
    tiled::delta_net_heads<PlainTiles, tiled::SplitTile>(runs, heads, generic_kernels().delta_net);
  };
  kernels.attend_group = &tiled::attend_group<PlainTiles>;
  return kernels;
}

// And matrices too, with rows of this format.
Kernels on_tiles(RowFormat format) {
  Kernels kernels = on_tiles();
  kernels.fast_rows = format;
  kernels.quantize = [](const float* x, int columns, const ActivationRow& row) {
    if (row.bf16 != nullptr) {
      tiled::round_row<PlainWords>(x, columns, row);
    } else if (row.wide()) {
      wide::round_row<PlainWideWords>(x, columns, row);
    } else {
      generic_kernels().quantize(x, columns, row);
    }
  };
  kernels.matmul = [](const PackedMatrix& matrix, int begin, int end, const ActivationRow* rows, int tokens,
                      float* out, std::ptrdiff_t stride) {
    const auto matmul = rows[0].bf16 != nullptr ? &tiled::matmul<PlainTiles, PlainWords, false>
                        : rows[0].wide()        ? &wide::matmul<PlainTiles, PlainWideWords, false>
                                                : generic_kernels().matmul;
    matmul(matrix, begin, end, rows, tokens, out, stride);
  };
  kernels.matmul_past_cache = nullptr;
  kernels.matmul_to_halves = &wide::matmul_to_halves<PlainTiles, PlainWideWords>;
  kernels.delta_net_heads_fast = [](const DeltaNetRun* runs, int heads) {
    tiled::delta_net_heads<PlainTiles, tiled::PairTile>(runs, heads, generic_kernels().delta_net);
  };
  return kernels;
}

constexpr int kTokens = 130;

Logits run(const Kernels& kernels, int threads, int piece, KvFormat kv = KvFormat::f16) {
  static const auto checkpoint = checkpoint::Checkpoint::open(testing::kTinyQ4);
  const model::Dimensions& dims = checkpoint->dimensions();
  ThreadPool pool(threads);
  const Weights weights = load_weights(*checkpoint, pool, {});
  Prefiller prefiller({dims, weights, kernels, pool}, kernels.fast_rows);
  CpuSequence sequence(dims, kTokens, kv);
  std::vector<TokenId> ids;
  for (int i = 0; i < kTokens; ++i)
    ids.push_back(static_cast<TokenId>(static_cast<std::uint32_t>(i) * 2654435761U % 500));
  Logits all(kTokens);
  backend::PrefillControl control;
  control.every_position = [&](int position, std::span<const float> row) {
    all[static_cast<std::size_t>(position)].assign(row.begin(), row.end());
  };
  std::vector<float> last(static_cast<std::size_t>(dims.vocabulary));
  for (int done = 0; done < kTokens; done += piece) {
    const auto count = static_cast<std::size_t>(std::min(piece, kTokens - done));
    prefiller.run(sequence, std::span(ids).subspan(static_cast<std::size_t>(done), count), last, control);
  }
  return all;
}

// The median over positions of the largest difference of a logit: near ties of experts move single positions
// far.
double median_difference(const Logits& found, const Logits& expected) {
  std::vector<double> largest;
  for (std::size_t p = 0; p < expected.size(); ++p)
    largest.push_back(testing::max_abs_difference(found[p], expected[p]));
  std::nth_element(largest.begin(), largest.begin() + kTokens / 2, largest.end());
  return largest[kTokens / 2];
}

// Where two runs of `fast` differ in the last bit of a mixer's output, 8-bit activations make it a step of 1
// / 127, so they are no nearer to each other than to fp32 (0.12 seen at most); logits have a standard
// deviation of 2.8.
constexpr double kNear = 0.3;

TEST(TilePrefill, StaysNearPrefillWithoutTiles) {
  for (const KvFormat kv : {KvFormat::f16, KvFormat::int8}) {
    EXPECT_LT(median_difference(run(on_tiles(), 2, kTokens, kv), run(without_tiles(), 2, kTokens, kv)),
              kNear);
  }
}

// Against exact activations, from which one 8-bit term a group is 0.24 away, bf16 0.07 and wide rows 0.37.
TEST(TilePrefill, RowsOfAmxStayNear) {
  Kernels exact = without_tiles();
  exact.fast_rows = RowFormat::two_terms;
  const Logits expected = run(exact, 2, kTokens);
  EXPECT_LT(median_difference(run(on_tiles(RowFormat::bf16), 2, kTokens), expected), 0.1);
  EXPECT_LT(median_difference(run(on_tiles(RowFormat::wide), 2, kTokens), expected), 0.5);
}

TEST(TilePrefill, ThreadsDoNotChangeABitOfRowsOfAmx) {
  for (const RowFormat format : {RowFormat::bf16, RowFormat::wide})
    EXPECT_EQ(run(on_tiles(format), 7, kTokens), run(on_tiles(format), 1, kTokens));
}

// With one thread heads that share a key are together, with many each is alone.
TEST(TilePrefill, ThreadsDoNotChangeABit) {
  const Logits one = run(on_tiles(), 1, kTokens);
  EXPECT_EQ(run(on_tiles(), 7, kTokens), one);
}

TEST(TilePrefill, PiecesOf64TokensGiveTheSameBitsOthersNearOnes) {
  const Logits whole = run(on_tiles(), 2, kTokens);
  EXPECT_EQ(run(on_tiles(), 2, 64), whole);
  EXPECT_LT(median_difference(run(on_tiles(), 2, 31), whole), kNear);
}

}  // namespace
}  // namespace lily::cpu
