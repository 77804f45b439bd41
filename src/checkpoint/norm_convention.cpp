// Plausibility of the norm convention, judged over all norm weights of the checkpoint together.
//
// What is known of real weights: the factors 1 + w of trained models lie between 0.1 and 2, hardly any is
// negative, and their mean is well above a third (0.65 in lily-mini, 1.0 in a fresh model). The zero-centred
// w are pulled to zero by weight decay, so their mean is small and many are negative. A single tensor can
// look like either (lily-mini's first post-attention factors average 0.11), so the decision is taken over all
// of them, and only a clear contradiction is refused.
#include "checkpoint/norm_convention.hpp"

#include <fmt/format.h>

#include "lily/error.hpp"

namespace lily::checkpoint {
namespace {

constexpr double kLowestFactorMean = 0.35;
constexpr double kMostNegativeFactors = 0.25;
constexpr double kHighestCentredMean = 0.5;

}  // namespace

void check_norm_convention(const std::vector<std::vector<float>*>& norms, model::Layout layout,
                           const std::filesystem::path& folder) {
  double sum = 0;
  double count = 0;
  double negative = 0;
  for (const std::vector<float>* const norm : norms) {
    for (const float value : *norm) {
      sum += value;
      negative += value < 0 ? 1 : 0;
    }
    count += static_cast<double>(norm->size());
  }
  const double mean = sum / count;
  const double negative_share = negative / count;
  if (layout == model::Layout::mlx && (mean < kLowestFactorMean || negative_share > kMostNegativeFactors)) {
    throw Error(
        ErrorKind::bad_input,
        fmt::format("{}: the norm weights have a mean of {:.3f} and {:.0f} % negative values, as raw "
                    "(zero-centred) norms do, but the convolution is in the converted layout, where norms "
                    "are stored as 1 + w; convert the checkpoint again",
                    folder.string(), mean, 100 * negative_share));
  }
  if (layout == model::Layout::hugging_face && mean > kHighestCentredMean && negative == 0) {
    throw Error(
        ErrorKind::bad_input,
        fmt::format("{}: the norm weights have a mean of {:.3f} and no negative value, as converted norms "
                    "(1 + w) do, but the convolution is in the raw layout, where norms are zero-centred; "
                    "convert the checkpoint again",
                    folder.string(), mean));
  }
}

}  // namespace lily::checkpoint
