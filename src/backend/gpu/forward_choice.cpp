// Records the choice of a token.
#include "backend/gpu/forward.hpp"
#include "backend/gpu/select.hpp"

namespace lily::gpu {

void ChoiceRecorder::choose(Plan& plan) const {
  const SampleBuffers& b = sample_;
  const uint rows = number(dims_.vocabulary), slices = b.slices, slice = b.slice;
  float* logits_row = pass_.logits.data();
  const Region best_logit = b.best_logit.first(slices), best_id = b.best_id.first(slices),
               history = b.history.first(rows),
               histogram = b.histogram.first(std::size_t{SampleShape::buckets} * SampleShape::words);
  plan.add(SampleAdjust{logits_row, b.history.data(), b.bias.data(), b.settings.data(), b.best_logit.data(),
                        b.best_id.data(), b.histogram.data(), rows, slice},
           {slices}, {logits(), history}, {logits(), best_logit, best_id, histogram});
  plan.add(SampleHistogram{logits_row, b.settings.data(), b.best_logit.data(), b.best_id.data(),
                           reinterpret_cast<atomic_uint*>(b.histogram.data()), b.slice_weight.data(), rows,
                           slice, slices},
           {slices}, {logits(), best_logit, best_id, histogram}, {histogram, b.slice_weight.first(slices)});
  plan.add(SampleCollect{logits_row, b.settings.data(), b.best_logit.data(), b.best_id.data(),
                         b.histogram.data(), b.list.data(), b.count.data(), rows, slice, slices},
           {slices}, {logits(), best_logit, best_id, histogram},
           {b.list.first(std::size_t{slices} * slice), b.count.first(slices)});
  draw(plan, slices);
}

void ChoiceRecorder::head_and_best(Plan& plan) const {
  const SampleBuffers& b = sample_;
  const DeviceMatrix& matrix = model_.weights.head;
  HeadBest a{};
  a.weights = matrix.blocks;
  a.x = pass_.x.data();
  a.factor = model_.weights.final_norm;
  a.history = b.history.data();
  a.y = pass_.logits.data();
  a.best_logit = b.best_logit.data();
  a.best_id = b.best_id.data();
  a.inputs = matrix.inputs;
  a.planes = matrix.planes;
  a.rows = number(dims_.vocabulary);
  a.groups = head_groups(matrix.tiles, model_.multiprocessors);
  a.eps = eps();
  plan.add(a, {a.groups}, {x(), b.history.first(a.rows)},
           {logits(), b.best_logit.first(a.groups), b.best_id.first(a.groups)});
  draw(plan, a.groups);
}

void ChoiceRecorder::draw(Plan& plan, uint slices) const {
  const SampleBuffers& b = sample_;
  const uint rows = number(dims_.vocabulary);
  SampleDraw a{};
  a.logits = pass_.logits.data();
  a.settings = b.settings.data();
  a.best_logit = b.best_logit.data();
  a.best_id = b.best_id.data();
  a.histogram = b.histogram.data();
  a.slice_weight = b.slice_weight.data();
  a.list = b.list.data();
  a.count = b.count.data();
  a.history = b.history.data();
  a.drawn = b.drawn.data();
  a.step = address<uint>(inputs_.region());
  a.ids = b.ids.data();
  a.rows = rows;
  a.slice = b.slice;
  a.slices = slices;
  a.id_ring = kIdRing;
  const std::size_t words = std::size_t{SampleShape::buckets} * SampleShape::words;
  plan.add(a, {1},
           {logits(), b.best_logit.first(slices), b.best_id.first(slices), b.histogram.first(words),
            b.slice_weight.first(b.slices), b.list.first(std::size_t{b.slices} * b.slice),
            b.count.first(b.slices), b.history.first(rows), b.drawn.first(1), inputs_.region()},
           {b.history.first(rows), b.drawn.first(1), inputs_.region(), b.ids.first(kIdRing)});
}

}  // namespace lily::gpu
