// Tokens of one sequence, chosen on the device.
#include "backend/gpu/token_stream.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lily/error.hpp"

namespace lily::gpu {
namespace {

template <class Record>
PreparedPlan& prepared(std::unique_ptr<PreparedPlan>& plan, Device& device, const Record& record) {
  if (!plan) {
    Plan recorded;
    record(recorded);
    plan = device.prepare(std::move(recorded));
  }
  return *plan;
}

PreparedPlan& choose_plan(Device& device, const Model& model, GpuSequence& sequence) {
  return prepared(sequence.plans().choose, device,
                  [&](Plan& plan) { ChoiceRecorder(model, sequence).choose(plan); });
}

PreparedPlan& step_plan(Device& device, const Model& model, GpuSequence& sequence,
                        const backend::SamplingRules& rules) {
  const DecodeRecorder step(model, sequence, sequence.step_inputs());
  const ChoiceRecorder choice(model, sequence);
  if (rules.greedy() && !rules.adjusts_logits()) {
    return prepared(sequence.plans().best, device, [&](Plan& plan) {
      step.step(plan);
      choice.head_and_best(plan);
    });
  }
  return prepared(sequence.plans().sampled, device, [&](Plan& plan) {
    step.step(plan);
    step.head(plan, 0, 1);
    choice.choose(plan);
  });
}

}  // namespace

GpuTokenStream::GpuTokenStream(Device& device, const Model& model, GpuSequence& sequence,
                               const backend::SamplingRules& rules, int limit)
    : device_(device),
      sequence_(sequence),
      first_(&choose_plan(device, model, sequence)),
      step_(&step_plan(device, model, sequence, rules)),
      limit_(limit),
      begin_(sequence.position()) {
  if (!sequence.has_logits()) {
    throw Error(ErrorKind::internal, "tokens were asked for before the sequence had logits");
  }
  if (limit - 1 > sequence.capacity() - sequence.position()) {
    throw Error(ErrorKind::too_long, fmt::format("{} more tokens do not fit: the sequence holds {} of {}",
                                                 limit, sequence.position(), sequence.capacity()));
  }
  // The first choice moves on from the step that wrote the logits.
  sequence.prepare_step(0, 1);
  sequence.prepare_sampling(rules);
  sequence.set_has_logits(false);
}

void GpuTokenStream::start() {
  (started_ == 0 ? first_ : step_)->run();
  marks_[static_cast<std::size_t>(started_) % marks_.size()] = device_.mark();
  ++started_;
}

TokenId GpuTokenStream::next() {
  if (given_ == limit_) throw Error(ErrorKind::internal, "a token was asked for beyond the answer's limit");
  while (started_ < std::min(limit_, given_ + 1 + static_cast<int>(kStepsAhead))) start();
  device_.wait(marks_[static_cast<std::size_t>(given_) % marks_.size()]);
  const uint id = *sequence_.sample().ids.at(static_cast<std::size_t>(begin_ + given_) % kIdRing);
  if (id == SampleShape::none) {
    throw Error(ErrorKind::internal, "a logit of the model is not finite");
  }
  if (given_++ > 0) sequence_.advance(1);
  return static_cast<TokenId>(id);
}

}  // namespace lily::gpu
