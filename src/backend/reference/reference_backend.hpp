// The plain, slow, obviously right forward pass: fp32 storage, fp64 accumulation. Judge of all other
// backends.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "backend/backend.hpp"
#include "checkpoint/checkpoint.hpp"

namespace lily::reference {

// Called after the embedding (layer 0) and after each layer (1 ..) with one token's hidden state; the last
// one is after the final norm, as transformers reports it. For tests.
using HiddenObserver = std::function<void(int layer, int position, std::span<const float> hidden)>;

std::unique_ptr<backend::Backend> open_reference_backend(
    std::shared_ptr<const checkpoint::Checkpoint> checkpoint, int threads, HiddenObserver observer = {});

}  // namespace lily::reference
