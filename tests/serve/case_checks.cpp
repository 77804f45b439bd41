// One function per kind of expectation.
#include "serve/case_checks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace lily::serve_test {
namespace {

struct Context {
  const CaseResult& result;
  const Json& defaults;
  const Json& expect;
  const StepResult& last_step() const { return result.steps.back(); }
  const Reply& last() const { return last_step().reply; }
};

using Check = std::function<void(const Json& wanted, const Context& context)>;

std::int64_t integer(const Json& value) { return value.as_integer().value(); }

bool holds_number(const Json& wanted, std::int64_t found) {
  if (!wanted.is_array()) return integer(wanted) == found;
  const Json::Array& list = wanted.as_array();
  return std::any_of(list.begin(), list.end(), [&](const Json& item) { return integer(item) == found; });
}

std::string plain(const Json& value) { return value.is_string() ? value.as_string() : value.dump(); }

// null and an absent member are the same.
bool has_value(const Reply& reply, const std::string& path, const Json& wanted) {
  const auto found = reply.at(path);
  return wanted.is_null() ? !found || *found == "null" : found == plain(wanted);
}

std::int64_t number_at(const Reply& reply, const std::string& path) {
  return std::stoll(reply.at(path).value());
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string joined(const Reply& stream, const char* field) {
  std::string text;
  for (const Json& chunk : parse_chunks(stream.body)) {
    const std::string piece = text_at(chunk, std::string("choices[0].delta.") + field).value_or("");
    if (piece != "null") text += piece;
  }
  return text;
}

std::string field_of(const Reply& buffered, const char* field) {
  const std::string text = buffered.at(std::string("choices[0].message.") + field).value_or("");
  return text == "null" ? "" : text;
}

void check_sse(const std::string& property, const Reply& reply) {
  const std::vector<SseEvent> events = parse_events(reply.body);
  const std::vector<Json> chunks = parse_chunks(reply.body);
  ASSERT_FALSE(chunks.empty());
  if (property == "first_delta_role_assistant") {
    EXPECT_EQ(text_at(chunks.front(), "choices[0].delta.role"), "assistant");
  } else if (property == "one_finish_reason") {
    EXPECT_EQ(std::count_if(chunks.begin(), chunks.end(),
                            [](const Json& c) {
                              return text_at(c, "choices[0].finish_reason").value_or("null") != "null";
                            }),
              1);
  } else if (property == "usage_chunk_choices_empty") {
    EXPECT_EQ(text_at(chunks.back(), "choices"), "[]");
    EXPECT_TRUE(text_at(chunks.back(), "usage.total_tokens"));
  } else if (property == "no_usage_chunk") {
    for (const Json& chunk : chunks) EXPECT_FALSE(text_at(chunk, "usage.total_tokens"));
  } else if (property == "same_id") {
    for (const Json& chunk : chunks) EXPECT_EQ(text_at(chunk, "id"), text_at(chunks.front(), "id"));
  } else if (property == "done_last") {
    EXPECT_EQ(events.back().data, "[DONE]");
  } else if (property == "error_event_last") {
    EXPECT_TRUE(text_at(chunks.back(), "error.message"));
    EXPECT_NE(events.back().data, "[DONE]");
  } else {
    ADD_FAILURE() << "no check for the stream property " << property;
  }
}

bool one_of_holds(const Json& alternative, const Reply& reply) {
  for (const auto& [name, wanted] : alternative.as_object()) {
    if (name == "status" && !holds_number(wanted, reply.status)) return false;
    if (name == "json") {
      for (const auto& [path, value] : wanted.as_object()) {
        if (!has_value(reply, path, value)) return false;
      }
    }
    // Several choices are refused here, so alternatives about them never apply.
    if (name.rfind("choices", 0) == 0) return false;
  }
  return true;
}

const std::map<std::string, Check>& checks() {
  static const std::map<std::string, Check> kChecks = {
      {"status",
       [](auto& w, auto& c) {
         EXPECT_TRUE(holds_number(w, c.last().status)) << c.last().status << c.last().body;
       }},
      {"error_type", [](auto& w, auto& c) { EXPECT_EQ(c.last().at("error.type"), w.as_string()); }},
      {"error_code", [](auto& w, auto& c) { EXPECT_EQ(c.last().at("error.code"), w.as_string()); }},
      {"error_param_contains",
       [](auto& w, auto& c) {
         EXPECT_NE(c.last().at("error.param").value().find(w.as_string()), std::string::npos)
             << c.last().body;
       }},
      {"valid_json_utf8", [](auto&, auto& c) { EXPECT_NO_THROW(c.last().json()) << c.last().body; }},
      {"alive_after", [](auto&, auto& c) { EXPECT_EQ(c.result.health, 200); }},
      {"json",
       [](auto& w, auto& c) {
         for (const auto& [path, value] : w.as_object()) {
           EXPECT_TRUE(has_value(c.last(), path, value)) << path << " in " << c.last().body;
         }
       }},
      {"json_has",
       [](auto& w, auto& c) {
         for (const Json& path : w.as_array()) EXPECT_TRUE(c.last().at(path.as_string())) << path.as_string();
       }},
      {"usage_sum_ok",
       [](auto&, auto& c) {
         EXPECT_EQ(
             number_at(c.last(), "usage.total_tokens"),
             number_at(c.last(), "usage.prompt_tokens") + number_at(c.last(), "usage.completion_tokens"));
       }},
      {"content_nonempty",
       [](auto&, auto& c) { EXPECT_NE(field_of(c.last(), "content"), "") << c.last().body; }},
      {"tool_calls_max", [](auto&, auto& c) { EXPECT_FALSE(c.last().at("choices[0].message.tool_calls")); }},
      {"sse",
       [](auto& w, auto& c) {
         for (const Json& property : w.as_array()) check_sse(property.as_string(), c.last());
       }},
      {"header",
       [](auto& w, auto& c) {
         for (const auto& [name, value] : w.as_object()) EXPECT_EQ(c.last().header(name), value.as_string());
       }},
      {"header_contains",
       [](auto& w, auto& c) {
         for (const auto& [name, parts] : w.as_object()) {
           for (const Json& part : parts.as_array()) {
             EXPECT_NE(lower(c.last().header(name)).find(lower(part.as_string())), std::string::npos) << name;
           }
         }
       }},
      {"has_header",
       [](auto& w, auto& c) {
         for (const Json& name : w.as_array()) EXPECT_NE(c.last().header(name.as_string()), "");
       }},
      {"no_header",
       [](auto& w, auto& c) {
         for (const Json& name : w.as_array()) EXPECT_EQ(c.last().header(name.as_string()), "");
       }},
      {"connection_closed", [](auto&, auto& c) { EXPECT_TRUE(c.last().connection_closed); }},
      {"body_not_contains",
       [](auto& w, auto& c) {
         for (const Json& text : w.as_array())
           EXPECT_EQ(c.last().body.find(text.as_string()), std::string::npos);
       }},
      {"stream_equals_buffered",
       [](auto&, auto& c) {
         const Reply& stream = c.result.steps.at(0).reply;
         for (const char* field : {"content", "reasoning_content"}) {
           EXPECT_EQ(joined(stream, field), field_of(c.last(), field)) << field;
         }
       }},
      {"headers_within_ms",
       [](auto& w, auto& c) { EXPECT_LE(c.last_step().until_head.count(), integer(w)); }},
      {"max_silence_ms",
       [](auto& w, auto& c) { EXPECT_LE(c.last_step().longest_silence.count(), integer(w)); }},
      {"active_zero_within_ms",
       [](auto& w, auto& c) {
         ASSERT_TRUE(c.result.idle_after);
         EXPECT_LE(c.result.idle_after->count(), integer(w));
       }},
      {"all_steps_equal",
       [](auto&, auto& c) {
         for (const StepResult& step : c.result.steps) {
           EXPECT_EQ(step.reply.at("choices[0].message"), c.last().at("choices[0].message"));
         }
       }},
      {"one_of",
       [](auto& w, auto& c) {
         const Json::Array& list = w.as_array();
         EXPECT_TRUE(std::any_of(list.begin(), list.end(), [&](const Json& a) {
           return one_of_holds(a, c.last());
         })) << c.last().body;
       }},
      {"message_has_numbers",
       [](auto&, auto& c) {
         const std::string message = c.last().at("error.message").value();
         EXPECT_TRUE(std::any_of(message.begin(), message.end(), [](char d) { return d >= '0' && d <= '9'; }))
             << message;
       }},
      {"total_tokens_max",
       [](auto& w, auto& c) { EXPECT_LE(number_at(c.last(), "usage.total_tokens"), integer(w)); }},
      {"rss_growth_mib_max", [](auto& w, auto& c) { EXPECT_LE(c.result.resident_growth_mib, integer(w)); }},
      {"effective_defaults_from",
       [](auto&, auto& c) {
         for (const char* name : {"temperature", "top_k", "top_p"}) {
           const double used = std::stod(c.last().at(std::string("sampling.") + name).value());
           EXPECT_NEAR(used, c.defaults.find(name)->as_double(), 1e-6) << name;
         }
       }},
      {"statuses_subset",
       [](auto& w, auto& c) {
         for (const StepResult& step : c.result.concurrent) EXPECT_TRUE(holds_number(w, step.reply.status));
       }},
      {"count_200_min",
       [](auto& w, auto& c) {
         const auto& all = c.result.concurrent;
         EXPECT_GE(std::count_if(all.begin(), all.end(), [](const auto& s) { return s.reply.status == 200; }),
                   integer(w));
       }},
      {"header_on_503",
       [](auto& w, auto& c) {
         for (const StepResult& step : c.result.concurrent) {
           if (step.reply.status != 503) continue;
           for (const Json& name : w.as_array()) EXPECT_NE(step.reply.header(name.as_string()), "");
         }
       }},
  };
  return kChecks;
}

}  // namespace

void check_case(const Json& expect, const CaseResult& result, const Json& defaults) {
  const Context context{result, defaults, expect};
  for (const auto& [name, wanted] : expect.as_object()) {
    SCOPED_TRACE(name);
    const auto check = checks().find(name);
    if (check == checks().end()) {
      ADD_FAILURE() << "no check for the expectation " << name;
      continue;
    }
    check->second(wanted, context);
  }
}

}  // namespace lily::serve_test
