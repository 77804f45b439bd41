// A prompt gives the same answer however it is cut, and nothing of an earlier request leaks into the next.
#include <gtest/gtest.h>

#include <memory>
#include <stop_token>
#include <vector>

#include "backend/reference/reference_backend.hpp"
#include "checkpoint/checkpoint.hpp"
#include "lily/error.hpp"
#include "support/fixtures.hpp"

namespace lily {
namespace {

class ChunkingTest : public ::testing::Test {
 protected:
  static constexpr int kTokens = 150;  // more than one chunk of the backend

  void SetUp() override {
    checkpoint_ = checkpoint::Checkpoint::open(testing::kTinyQ4);
    backend_ = open(2);
    for (int i = 0; i < kTokens; ++i) ids_.push_back((i * 37 + 11) % 500);
  }

  std::unique_ptr<backend::Backend> open(int threads) {
    return reference::open_reference_backend(checkpoint_, threads);
  }

  // Logits of the last token when the prompt is handed over in pieces.
  std::vector<float> run(backend::Backend& backend, backend::Sequence& sequence, std::size_t piece) const {
    std::vector<float> logits(static_cast<std::size_t>(backend.dimensions().vocabulary));
    for (std::size_t begin = 0; begin < ids_.size(); begin += piece) {
      const auto tokens = std::span(ids_).subspan(begin, std::min(piece, ids_.size() - begin));
      backend.prefill(sequence, tokens, logits, {});
    }
    return logits;
  }

  std::vector<float> run(backend::Backend& backend, std::size_t piece) const {
    return run(backend, *backend.new_sequence(kTokens), piece);
  }

  std::shared_ptr<const checkpoint::Checkpoint> checkpoint_;
  std::unique_ptr<backend::Backend> backend_;
  std::vector<TokenId> ids_;
};

// Pieces shorter than the convolution window (1, 2, 3) are the risky ones. Every sum has a fixed order, so
// the results are not only close but the same.
TEST_F(ChunkingTest, EveryCutGivesTheSameLogits) {
  const std::vector<float> whole = run(*backend_, kTokens);
  for (const std::size_t piece : {1, 2, 3, 4, 5, 16, 63, 64, 65, 149}) {
    EXPECT_EQ(run(*backend_, piece), whole) << "pieces of " << piece;
  }
}

TEST_F(ChunkingTest, DecodeIsPrefillOfOneToken) {
  const std::vector<float> whole = run(*backend_, kTokens);
  const auto sequence = backend_->new_sequence(kTokens);
  std::vector<float> logits(whole.size());
  backend_->prefill(*sequence, std::span(ids_).first(kTokens - 9), logits, {});
  for (int i = kTokens - 9; i < kTokens; ++i) {
    backend_->decode(*sequence, ids_[static_cast<std::size_t>(i)], logits);
  }
  EXPECT_EQ(logits, whole);
}

TEST_F(ChunkingTest, ThreadsDoNotChangeTheResult) {
  const std::vector<float> two = run(*backend_, kTokens);
  EXPECT_EQ(run(*open(1), kTokens), two);
  EXPECT_EQ(run(*open(3), kTokens), two);
}

TEST_F(ChunkingTest, AResetSequenceIsAsNew) {
  const std::vector<float> fresh = run(*backend_, kTokens);
  const auto sequence = backend_->new_sequence(kTokens);
  std::vector<float> logits(fresh.size());
  const std::vector<TokenId> other(kTokens, 7);
  backend_->prefill(*sequence, other, logits, {});  // stale values now lie everywhere
  ASSERT_NE(logits, fresh);
  sequence->reset();
  EXPECT_EQ(sequence->position(), 0);
  EXPECT_EQ(run(*backend_, *sequence, kTokens), fresh);
}

TEST_F(ChunkingTest, AResetHealsASequenceThatWasStopped) {
  const std::vector<float> fresh = run(*backend_, kTokens);
  const auto sequence = backend_->new_sequence(kTokens);
  std::vector<float> logits(fresh.size());
  std::stop_source stop;
  backend::PrefillControl control;
  control.stop = stop.get_token();
  control.progress = [&](int, int) { stop.request_stop(); };  // after the first chunk
  try {
    backend_->prefill(*sequence, ids_, logits, control);
    FAIL() << "the stop request was ignored";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::cancelled);
  }
  EXPECT_LT(sequence->position(), kTokens);
  sequence->reset();
  EXPECT_EQ(run(*backend_, *sequence, kTokens), fresh);
}

TEST_F(ChunkingTest, CapacityIsExact) {
  std::vector<float> logits(static_cast<std::size_t>(backend_->dimensions().vocabulary));
  for (const int capacity : {9, 10, 11}) {
    const auto sequence = backend_->new_sequence(capacity);
    const auto prompt = std::span(ids_).first(10);
    if (capacity < 10) {
      EXPECT_THROW(backend_->prefill(*sequence, prompt, logits, {}), Error);
      EXPECT_EQ(sequence->position(), 0) << "work was done before the check";
      continue;
    }
    backend_->prefill(*sequence, prompt, logits, {});
    if (capacity == 10) {
      EXPECT_THROW(backend_->decode(*sequence, 1, logits), Error);
    } else {
      backend_->decode(*sequence, 1, logits);
      EXPECT_EQ(sequence->position(), 11);
    }
  }
}

TEST_F(ChunkingTest, IdsOutsideTheVocabularyAreRefusedBeforeAnyWork) {
  std::vector<float> logits(static_cast<std::size_t>(backend_->dimensions().vocabulary));
  for (const TokenId bad : {-1, backend_->dimensions().vocabulary}) {
    const auto sequence = backend_->new_sequence(8);
    const std::vector<TokenId> prompt = {1, 2, bad};
    try {
      backend_->prefill(*sequence, prompt, logits, {});
      FAIL() << "id " << bad << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      EXPECT_NE(std::string(error.what()).find(std::to_string(bad)), std::string::npos);
    }
    EXPECT_EQ(sequence->position(), 0);
  }
}

// The plan counts what a sequence really keeps: fp32 state, window, keys and values, and a row of scores.
TEST_F(ChunkingTest, SequenceBytesFollowTheFormulas) {
  const model::StateSizes sizes = model::state_sizes(backend_->dimensions());
  const auto expected = [&](std::int64_t capacity) {
    return 4 * (sizes.delta_net + sizes.conv_window + capacity * sizes.kv_per_token) + 2 * 8 * capacity;
  };
  EXPECT_EQ(static_cast<std::int64_t>(backend_->sequence_bytes(1000)), expected(1000));
  EXPECT_EQ(static_cast<std::int64_t>(backend_->sequence_bytes(1)), expected(1));
}

// 4.5 bits for a 4-bit weight and 8.5 for an 8-bit one, counted from the shapes alone.
TEST_F(ChunkingTest, DecodeTrafficFollowsTheShapes) {
  const model::Dimensions& d = backend_->dimensions();
  const double delta_net = (d.conv_channels() + d.value_rows() + 2.0 * d.value_heads) * d.hidden_size +
                           1.0 * d.hidden_size * d.value_rows();
  const double attention =
      (d.query_gate_rows() + 2.0 * d.kv_rows()) * d.hidden_size + 1.0 * d.hidden_size * d.attention_rows();
  const double experts = 3.0 * d.hidden_size * (d.experts_per_token * d.expert_size + d.shared_expert_size);
  const double routers = (d.experts + 1.0) * d.hidden_size;
  const double four_bit = d.delta_net_layers() * delta_net + d.attention_layers() * attention +
                          d.layer_count() * experts + (d.vocabulary + 1.0) * d.hidden_size;
  const double small =
      d.delta_net_layers() * (d.conv_channels() * d.conv_kernel + 2.0 * d.value_heads + d.value_dim) +
      d.attention_layers() * 2.0 * d.head_dim + (2.0 * d.layer_count() + 1) * d.hidden_size;
  const double expected = four_bit * 4.5 / 8 + d.layer_count() * routers * 8.5 / 8 + 2 * small;
  const backend::DecodeTraffic traffic = backend_->decode_traffic(100);
  EXPECT_NEAR(traffic.weight_bytes, expected, 1);
  EXPECT_NEAR(traffic.kv_bytes, 101.0 * d.attention_layers() * 2 * d.kv_rows() * 4, 1);
  EXPECT_GT(traffic.state_bytes, 2.0 * 4 * d.delta_net_layers() * d.value_rows() * d.key_dim);
}

}  // namespace
}  // namespace lily
