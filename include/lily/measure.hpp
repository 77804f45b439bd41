// Speed and fidelity of a checkpoint on this machine: what `lily bench` and `lily eval` print.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "lily/engine.hpp"

namespace lily {

struct BenchmarkOptions {
  std::vector<int> prompts = {
      512};  // tokens of the synthetic prompt: id[i] = (i * 2654435761 mod 2^32) mod vocab
  std::vector<int> depths = {0};  // tokens already in the sequence before the measured prompt
  int decode = 64;                // measured decode steps
};

// One (prompt, depth). The contract is in docs/performance.md.
struct BenchmarkRow {
  std::string backend;
  int prompt_tokens = 0;
  int depth = 0;
  double prefill_tok_s = 0;
  double decode_tok_s = 0;
  double bytes_per_token = 0;      // read and written by one decode step at this depth
  double gb_per_s = 0;             // bytes_per_token * decode_tok_s
  double stream_gb_per_s = 0;      // the machine's read limit: median of those measured between decode steps
  double int8_tera_ops = 0;        // its int8 limit with the instruction set in use, before and after prefill
  double limit_share = 0;          // decode's GB/s against the limit measured beside it: median over segments
  double prefill_limit_share = 0;  // prefill operations per second / int8 limit
  std::string activations;
  std::string kv;
  std::uint64_t peak_rss_bytes = 0;
  std::string digest;  // FNV-1a 64 over the decoded ids, 16 hex digits
};

// Runs every (prompt, depth) after a warm-up and calls `row` for each. Throws as Engine::open does.
void benchmark(const EngineOptions& engine, const BenchmarkOptions& options,
               const std::function<void(const BenchmarkRow&)>& row);

// One entry of a golden file (short, mid, long, greedy).
struct EvaluationRow {
  std::string entry;
  int positions = 0;
  double max_abs_error = 0;     // of logits, over the positions that the file stores; NaN when none
  double top1 = 0;              // share of positions with the stored argmax
  double perplexity_ratio = 0;  // ours over the stored one
  double kl = 0;                // mean KL(stored || ours), nats; NaN when the file has no full logits
  int greedy_equal = 0;         // leading greedy ids equal; 0 for entries without ids
};

void evaluate(const EngineOptions& engine, const std::filesystem::path& golden,
              const std::function<void(const EvaluationRow&)>& row);

struct TextOptions {
  std::filesystem::path text;  // a file of UTF-8; control literals such as <|im_start|> are control tokens
  int window = 0;              // tokens read from a fresh start at a time; 0: the default context
  std::filesystem::path against{};  // a second checkpoint with the same tokens reads the text too
  std::string against_backend = "auto";
  Activations against_activations = Activations::automatic;
};

// How well a checkpoint predicts a text. The first token of each window follows nothing and is not predicted;
// windows do not overlap, so that the beginning of each is predicted from little.
struct TextRow {
  int windows = 0;
  int tokens = 0;
  int predicted = 0;
  double bytes_per_token = 0;
  double perplexity = 0;  // per token: exp of the mean negative log-likelihood
  // Against the second checkpoint, over all positions; NaN when there is none.
  double against_perplexity = 0;
  double perplexity_ratio = 0;  // ours over the second's
  double top1 = 0;              // share of positions with the same most likely token
  double kl = 0;                // mean KL(second || ours), nats
};

// Throws as Engine::open does; bad_input when the text has no token to predict or the second checkpoint has
// other tokens.
TextRow evaluate_text(const EngineOptions& engine, const TextOptions& options);

}  // namespace lily
