// Chooses the next token of one request.
#include "engine/sampler.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

namespace lily::engine {
namespace {

// Buckets of a histogram over log weights relative to the best token; the last one holds all that is lighter
// than e^-64.
constexpr std::size_t kBuckets = 1024;
constexpr float kBucketsPerUnit = 16;
constexpr float kLastBucket = kBuckets - 1;

}  // namespace

Sampler::Sampler(SamplingSettings settings, TokenRanges allowed, std::span<const TokenId> prompt,
                 const std::function<bool(TokenId)>& is_control)
    : settings_(std::move(settings)),
      allowed_(std::move(allowed)),
      is_control_(is_control),
      random_(settings_.seed) {
  if (settings_.top_k >= allowed_.count()) settings_.top_k = 0;
  if (settings_.repetition_penalty == 1) return;
  for (const TokenId id : prompt) mark_repeated(id);
}

void Sampler::accept(TokenId id) {
  ++answer_counts_[id];
  if (settings_.repetition_penalty != 1) mark_repeated(id);
}

void Sampler::mark_repeated(TokenId id) {
  const auto index = static_cast<std::size_t>(id);
  if (index >= is_repeated_.size()) is_repeated_.resize(index + 1);
  if (is_repeated_[index] || is_control_(id)) return;
  is_repeated_[index] = true;
  repeated_.push_back(id);
}

TokenId Sampler::choose(std::span<float> logits) {
  penalize(logits);
  for (const auto& [id, bias] : settings_.logit_bias) {
    float& logit = logits[static_cast<std::size_t>(id)];
    logit = bias > kBannedBias ? logit + bias : std::numeric_limits<float>::lowest();
  }
  const Candidate best = best_candidate(logits, allowed_);
  if (settings_.greedy()) return best.id;
  const bool keeps_all = settings_.top_k == 0 && settings_.top_p == 1;
  return keeps_all ? draw_from_all(logits, best) : draw_from_candidates(logits, best);
}

void Sampler::penalize(std::span<float> logits) const {
  for (const TokenId id : repeated_) {
    float& logit = logits[static_cast<std::size_t>(id)];
    logit = logit > 0 ? logit / settings_.repetition_penalty : logit * settings_.repetition_penalty;
  }
  if (settings_.presence_penalty == 0 && settings_.frequency_penalty == 0) return;
  for (const auto& [id, count] : answer_counts_) {
    logits[static_cast<std::size_t>(id)] -=
        settings_.presence_penalty + settings_.frequency_penalty * static_cast<float>(count);
  }
}

float Sampler::weight(float logit, Candidate best) const {
  return std::exp((logit - best.logit) / settings_.temperature);
}

// Collects the best tokens that together hold at least top_p of the weight, best first, and returns the
// weight of all. A histogram over the distance to the best logit finds them without sorting the whole
// vocabulary.
double Sampler::collect_nucleus(std::span<const float> logits, Candidate best) {
  std::array<double, kBuckets> weights{};
  const auto for_each = [&](const auto& use) {
    for (const TokenRange& range : allowed_) {
      for (TokenId id = range.begin; id < range.end; ++id) {
        const float logit = logits[static_cast<std::size_t>(id)];
        const float distance = (best.logit - logit) / settings_.temperature;
        use(Candidate{logit, id},
            static_cast<std::size_t>(std::min(distance * kBucketsPerUnit, kLastBucket)));
      }
    }
  };
  for_each(
      [&](Candidate candidate, std::size_t bucket) { weights[bucket] += weight(candidate.logit, best); });
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::size_t last = 0;
  for (double held = weights[0]; held < settings_.top_p * total && last + 1 < kBuckets;
       held += weights[++last]) {
  }
  candidates_.clear();
  for_each([&](Candidate candidate, std::size_t bucket) {
    if (bucket <= last) candidates_.push_back(candidate);
  });
  std::sort(candidates_.begin(), candidates_.end(), better);
  return total;
}

// Neither top-k nor top-p: nothing has to be sorted. Min-p is a limit on the weight.
TokenId Sampler::draw_from_all(std::span<const float> logits, Candidate best) {
  const auto visit = [&](const auto& use) {
    for (const TokenRange& range : allowed_) {
      for (TokenId id = range.begin; id < range.end; ++id) {
        const float value = weight(logits[static_cast<std::size_t>(id)], best);
        if (value >= settings_.min_p && !use(id, value)) return;
      }
    }
  };
  double total = 0;
  visit([&](TokenId, float value) {
    total += value;
    return true;
  });
  double left = random_.next() * total;
  TokenId chosen = best.id;  // stays when rounding leaves a rest after the last token
  visit([&](TokenId id, float value) {
    left -= value;
    if (left >= 0) return true;
    chosen = id;
    return false;
  });
  return chosen;
}

TokenId Sampler::draw_from_candidates(std::span<const float> logits, Candidate best) {
  double total = 0;
  if (settings_.top_k > 0) {
    best_candidates(logits, allowed_, settings_.top_k, candidates_);
    for (const Candidate& candidate : candidates_) total += weight(candidate.logit, best);
  } else {
    total = collect_nucleus(logits, best);
  }

  // The shortest run of best tokens that holds top_p of the weight, and of those the ones min-p allows.
  double kept = 0;
  std::size_t size = 0;
  while (size < candidates_.size()) {
    const float value = weight(candidates_[size].logit, best);
    if (size > 0 && (value < settings_.min_p || (settings_.top_p < 1 && kept >= settings_.top_p * total)))
      break;
    kept += value;
    ++size;
  }
  double left = random_.next() * kept;
  for (std::size_t i = 0; i < size; ++i) {
    left -= weight(candidates_[i].logit, best);
    if (left < 0) return candidates_[i].id;
  }
  return best.id;
}

}  // namespace lily::engine
