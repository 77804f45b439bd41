// Compares what a recorded HTTP case produced with its "expect" object.
#pragma once

#include "lily/json.hpp"
#include "serve/case_run.hpp"

namespace lily::serve_test {

// Every member of `expect` is checked; one that no check knows fails the running test.
// `defaults` are the sampling values of the checkpoint's generation_config.json.
void check_case(const Json& expect, const CaseResult& result, const Json& defaults);

}  // namespace lily::serve_test
