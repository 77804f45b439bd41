// Drives the answer parser over text cut into pieces and folds what it streams, as a client would.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text/output_parser.hpp"

namespace lily::text {

struct ParserRun {
  Answer answer;  // the buffered reply
  Answer stream;  // the fold of the deltas
  std::size_t deltas = 0;
};

inline void fold(const Delta& delta, Answer& into) {
  into.reasoning += delta.reasoning;
  into.content += delta.content;
  for (const ToolCallDelta& piece : delta.tool_calls) {
    if (!piece.id.empty()) {
      EXPECT_EQ(piece.index, into.tool_calls.size()) << "a call must begin with the next index";
      EXPECT_FALSE(piece.name.empty()) << "id and name come together";
      into.tool_calls.push_back({.id = piece.id, .name = piece.name, .arguments = {}});
    }
    ASSERT_EQ(piece.index + 1, into.tool_calls.size()) << "only the last call grows";
    EXPECT_TRUE(!piece.id.empty() || piece.name.empty()) << "the name comes once";
    into.tool_calls.back().arguments += piece.arguments;
  }
}

inline ParserRun run_parser(const OutputParser::Options& options, const std::vector<std::string_view>& pieces,
                            bool by_length) {
  OutputParser parser(options);
  ParserRun run;
  const auto note = [&](const Delta& delta) {
    run.deltas += !delta.empty();
    fold(delta, run.stream);
  };
  for (const std::string_view piece : pieces) note(parser.push(piece));
  note(parser.finish(by_length));
  run.answer = parser.answer();
  run.stream.finish_reason = run.answer.finish_reason;
  std::set<std::string> ids;
  for (const Answer::Call& call : run.answer.tool_calls) {
    EXPECT_TRUE(!call.id.empty() && ids.insert(call.id).second) << "ids must be unique";
  }
  return run;
}

// A readable form in which two answers are equal exactly when they are the same.
inline std::string describe(const Answer& answer) {
  Json calls = Json::array();
  for (const Answer::Call& call : answer.tool_calls) {
    calls.as_array().push_back(
        Json::array({Json::string(call.id), Json::string(call.name), Json::string(call.arguments)}));
  }
  return Json::object({{"reasoning", Json::string(answer.reasoning)},
                       {"content", Json::string(answer.content)},
                       {"calls", calls},
                       {"finish", Json::string(std::string(to_string(answer.finish_reason)))}})
      .dump_python();
}

inline std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> pieces;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    pieces.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

// Parses `text` whole, cut in two at every character, and character by character; all must agree. What a
// stream has shown of a call that is left out at the end cannot be taken back, so it may hold one call more
// then.
inline Answer parse_in_all_cuts(const OutputParser::Options& options, std::string_view text, bool by_length) {
  const ParserRun whole = run_parser(options, {text}, by_length);
  const std::string expected = describe(whole.answer);
  const auto check = [&](ParserRun run) {
    EXPECT_EQ(describe(run.answer), expected);
    if (by_length && run.stream.tool_calls.size() == run.answer.tool_calls.size() + 1) {
      run.stream.tool_calls.pop_back();
    }
    EXPECT_EQ(describe(run.stream), expected);
  };
  check(whole);
  const std::vector<std::string_view> pieces = characters(text);
  check(run_parser(options, pieces, by_length));
  for (const std::string_view piece : pieces) {
    const std::size_t cut = static_cast<std::size_t>(piece.data() - text.data());
    SCOPED_TRACE("cut at byte " + std::to_string(cut));
    check(run_parser(options, {text.substr(0, cut), text.substr(cut)}, by_length));
  }
  return whole.answer;
}

}  // namespace lily::text
