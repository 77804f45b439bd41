// The engine: opens a checkpoint and turns requests into answers. Start here.
#pragma once

#include <filesystem>
#include <memory>
#include <stop_token>
#include <string>

#include "lily/error.hpp"
#include "lily/generation.hpp"
#include "lily/progress.hpp"
#include "lily/text.hpp"

namespace lily {

enum class Activations { automatic, exact, fast };  // see docs/performance.md, "Activations"
enum class KvFormat { f16, int8 };

constexpr int kMaxThreads = 1024;

struct EngineOptions {
  std::filesystem::path model{};  // checkpoint folder
  std::string backend = "auto";   // auto, cpu, cuda, reference, emulator (metal: refused by name)
  int context = 0;                // tokens per sequence; 0: 32768 or the model's limit if smaller
  int threads = 0;                // at most kMaxThreads; 0: all cores
  Activations activations = Activations::automatic;
  KvFormat kv = KvFormat::f16;
  int max_queue = 64;              // requests waiting; beyond it generate() throws overloaded
  std::uint64_t memory_limit = 0;  // bytes the plan may use; 0: the machine's memory
  Progress progress{};
};

// What `open` settled on, for people and for /v1/models.
struct EngineInfo {
  std::string model_id;  // the folder's name
  std::string backend;   // "cpu (avx512-vnni, 2 threads)"
  int context = 0;
  int vocabulary_size = 0;  // addressable ids
  std::uint64_t weight_bytes = 0;
  std::uint64_t sequence_bytes = 0;  // state of one sequence at full context
  std::string activations;           // "auto (decode exact, prefill fast)"
  std::string kv;                    // "f16"
};

// Thread-safe. Requests run one at a time in the order of arrival.
class Engine {
 public:
  // Proves and loads the checkpoint. Throws Error: not_found or bad_input (files), unsupported
  // (architecture, backend), out_of_memory (the plan does not fit; the message has the numbers).
  static std::unique_ptr<Engine> open(const EngineOptions& options);

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;

  virtual const EngineInfo& info() const noexcept = 0;
  virtual const TextProtocol& text() const noexcept = 0;

  // Everything that can be wrong with a request, without running it; returns its prompt's ids. Throws Error:
  // bad_input (param() names the field), too_long (prompt against context), unsupported (images).
  virtual std::vector<TokenId> check(const GenerationRequest& request) const = 0;

  // Runs one request to its end; blocks. Throws as check() does, and: overloaded (queue full), internal
  // (non-finite logits; the sequence is discarded), device. A stop request ends it at the next layer or
  // step with finish_reason cancelled and what was generated so far.
  virtual GenerationResult generate(const GenerationRequest& request, const GenerationCallbacks& callbacks,
                                    std::stop_token stop) = 0;

 protected:
  Engine() = default;
};

}  // namespace lily
