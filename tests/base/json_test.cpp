// JSON from clients: what is kept (order, spelling), what is refused, and the exact text that is written.
#include "lily/json.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "lily/error.hpp"
#include "support/text_checks.hpp"

namespace lily {
namespace {

using lily::testing::contains;

std::string refusal(std::string_view text, const JsonLimits& limits = {}) {
  try {
    Json::parse(text, limits);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << text.substr(0, 80);
  return "";
}

TEST(JsonParse, KeepsKeyOrderAndNumberSpelling) {
  const std::string text =
      R"({"zeta": 1.50, "alpha": 123456789012345678901234567890, "m": [1E5, -7, 0.1e-3], "n": null, "t": true})";
  EXPECT_EQ(Json::parse(text).dump_python(), text);
}

TEST(JsonParse, DuplicateKeysKeepTheFirstPositionAndTheLastValue) {
  EXPECT_EQ(Json::parse(R"({"a":1,"b":2,"a":3,"c":4,"b":5,"a":6})").dump(), R"({"a":6,"b":5,"c":4})");
}

TEST(JsonParse, ManyKeysAreNotQuadratic) {
  std::string text = "{";
  for (int i = 0; i < 200'000; ++i)
    text += "\"k" + std::to_string(i % 150'000) + "\":" + std::to_string(i) + ",";
  text.back() = '}';
  const Json value = Json::parse(text);
  ASSERT_EQ(value.as_object().size(), 150'000u);
  EXPECT_EQ(value.as_object()[0].second.as_integer(), 150'000);
  EXPECT_EQ(value.as_object()[149'999].second.as_integer(), 149'999);
}

TEST(JsonParse, EscapesAndSurrogatePairsBecomeUtf8) {
  EXPECT_EQ(Json::parse(R"("\u00e9\ud83d\ude00\n\/")").as_string(), "é😀\n/");
}

TEST(JsonParse, RefusesMalformedText) {
  for (const char* text :
       {"",    " ",        "{",      "[1,]",   "{\"a\":1,}", "{'a':1}", "nul",     "01", "1.",      "+1",
        "NaN", "Infinity", "\"\t\"", "\"open", "1 2",        "// c\n1", "{\"a\"}", "]",  "\"\\x\"", "[1"}) {
    EXPECT_TRUE(contains(refusal(text), "JSON: malformed at byte")) << text;
  }
}

TEST(JsonParse, NamesTheByteAndTheReason) {
  EXPECT_TRUE(contains(refusal("[1, 2, x]"), "byte 8"));
  EXPECT_TRUE(contains(refusal("[1, 2, x]"), "invalid literal"));
}

TEST(JsonParse, RefusesInvalidUtf8AndLoneSurrogates) {
  for (const char* text : {"\"\xff\"", "\"\xc3\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xc0\xaf\"",
                           R"("\ud800")", R"("\ud800x")", R"("\udc00")", R"("\ud800\ud800")"}) {
    EXPECT_TRUE(contains(refusal(text), "JSON: malformed at byte")) << text;
  }
}

TEST(JsonParse, AZeroByteEndsNoText) {
  for (const std::string_view text : {std::string_view("{}\0", 3), std::string_view("{}\0{", 4),
                                      std::string_view("[1,\0 2]", 7), std::string_view("\"\0\"", 3)}) {
    EXPECT_TRUE(contains(refusal(text), "JSON: malformed at byte")) << text;
  }
}

TEST(JsonParse, RefusalsNeverRepeatTheInput) {
  const std::string secret(5000, 's');
  EXPECT_LT(refusal("[\"" + secret + "\", x" + secret + "]").size(), 200u);
  EXPECT_FALSE(contains(refusal("[\"" + secret + "\"\xff]"), "sss"));
}

TEST(JsonParse, RefusesNumbersBeyondADouble) {
  EXPECT_TRUE(contains(refusal("[1e400]"), "beyond the range"));
  EXPECT_TRUE(contains(refusal(std::string(400, '9')), "beyond the range"));
  EXPECT_EQ(Json::parse("1e-400").as_double(), 0.0);
}

TEST(JsonParse, NestingLimitIsExactAndDeepTextIsHarmless) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(Json::parse(nested(128)).dump(), nested(128));
  EXPECT_TRUE(contains(refusal(nested(129)), "128 levels"));
  EXPECT_TRUE(contains(refusal(nested(1'000'000)), "128 levels"));
  EXPECT_TRUE(contains(refusal("[[[]]]", {.max_depth = 2}), "2 levels"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_TRUE(contains(refusal(objects), "128 levels"));
}

TEST(JsonDump, EscapesAsPythonDoes) {
  std::string text = "\"\\/<>&' é漢😀\x7f";
  for (char c = 1; c < 0x20; ++c) text += c;
  text += '\0';
  EXPECT_EQ(
      Json::string(text).dump_python(),
      "\"\\\"\\\\/<>&' é漢😀\x7f"
      "\\u0001\\u0002\\u0003\\u0004\\u0005\\u0006\\u0007\\b\\t\\n\\u000b\\f\\r\\u000e\\u000f"
      "\\u0010\\u0011\\u0012\\u0013\\u0014\\u0015\\u0016\\u0017\\u0018\\u0019\\u001a\\u001b\\u001c\\u001d"
      "\\u001e\\u001f\\u0000\"");
}

TEST(JsonDump, SeparatorsOfPythonAndOfTheWire) {
  const Json value = Json::parse(R"({"a":[1,{"b":[]},{}],"c":"d"})");
  EXPECT_EQ(value.dump_python(), R"({"a": [1, {"b": []}, {}], "c": "d"})");
  EXPECT_EQ(value.dump(), R"({"a":[1,{"b":[]},{}],"c":"d"})");
}

TEST(JsonDump, RealsAreSpelledAsPythonsRepr) {
  const std::pair<double, const char*> cases[] = {{0.0, "0.0"},
                                                  {-0.0, "-0.0"},
                                                  {1.0, "1.0"},
                                                  {0.1, "0.1"},
                                                  {1e15, "1000000000000000.0"},
                                                  {1e16, "1e+16"},
                                                  {123456789012345680.0, "1.2345678901234568e+17"},
                                                  {1e-4, "0.0001"},
                                                  {1e-5, "1e-05"},
                                                  {-1.5e300, "-1.5e+300"},
                                                  {5e-324, "5e-324"},
                                                  {1.0 / 3, "0.3333333333333333"}};
  for (const auto& [value, spelling] : cases) EXPECT_EQ(Json::real(value).dump(), spelling);
  EXPECT_THROW(Json::real(std::nan("")), Error);
  EXPECT_THROW(Json::real(std::numeric_limits<double>::infinity()), Error);
}

TEST(JsonNumbers, IntegersAreThoseWrittenAsIntegers) {
  EXPECT_EQ(Json::parse("-9223372036854775808").as_integer(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(Json::parse("9223372036854775808").as_integer(), std::nullopt);
  EXPECT_EQ(Json::parse("9223372036854775808").number_text(), "9223372036854775808");
  EXPECT_EQ(Json::parse("1.0").as_integer(), std::nullopt);
  EXPECT_EQ(Json::parse("\"1\"").as_integer(), std::nullopt);
  EXPECT_EQ(Json::parse("2.5e3").as_double(), 2500.0);
}

TEST(JsonEquality, ComparesValuesNotSpellings) {
  const std::pair<const char*, const char*> equal[] = {{"1.50", "1.5"},
                                                       {"1e2", "100"},
                                                       {"100.0", "1E+2"},
                                                       {"0.0", "0"},
                                                       {"-0.0", "0"},
                                                       {"0.001", "1e-3"},
                                                       {"{\"a\":1,\"b\":2}", "{\"b\":2.0,\"a\":1}"},
                                                       {"[1,\"x\",null]", "[1.0,\"x\",null]"}};
  for (const auto& [a, b] : equal) EXPECT_TRUE(Json::parse(a) == Json::parse(b)) << a << " and " << b;
  const std::pair<const char*, const char*> different[] = {{"9007199254740993", "9007199254740992"},
                                                           {"1", "-1"},
                                                           {"1", "\"1\""},
                                                           {"0", "false"},
                                                           {"[1,2]", "[2,1]"},
                                                           {"{\"a\":1}", "{\"a\":1,\"b\":2}"},
                                                           {"{\"a\":1}", "{\"b\":1}"},
                                                           {"10", "1"}};
  for (const auto& [a, b] : different) EXPECT_FALSE(Json::parse(a) == Json::parse(b)) << a << " and " << b;
}

TEST(JsonAccess, NamesTheKindFound) {
  const Json value = Json::parse("[1]");
  try {
    (void)value.as_string();
    FAIL() << "an array was taken for a string";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "expected a string, found array");
  }
  EXPECT_EQ(value.find("a"), nullptr);
}

TEST(JsonAccess, SetReplacesInPlaceOrAppends) {
  Json value;
  value.set("b", Json::integer(1));
  value.set("a", Json::integer(2));
  value.set("b", Json::boolean(true));
  EXPECT_EQ(value.dump(), R"({"b":true,"a":2})");
  EXPECT_EQ(*value.find("a"), Json::integer(2));
}

}  // namespace
}  // namespace lily
