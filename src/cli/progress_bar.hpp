// A one-line progress bar on standard error, drawn only when that is a terminal.
#pragma once

#include <functional>

#include "lily/progress.hpp"

namespace lily::cli {

// For EngineOptions::progress and SynthOptions::progress. The line is removed when a work is done.
Progress progress_bar();

// For GenerationCallbacks::prefill. Appears once a prompt has taken half a second.
std::function<void(int done, int total)> prefill_bar();

}  // namespace lily::cli
