// The interpreter of recorded HTTP cases: steps, raw requests, stalled readers, concurrent requests.
#include "serve/case_run.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "serve/resident_memory.hpp"

namespace lily::serve_test {
namespace {

std::string from_base64(std::string_view text) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0;
  int held = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<unsigned>(kAlphabet.find(c));
    if ((held += 6) < 8) continue;
    held -= 8;
    bytes += static_cast<char>(bits >> held & 0xFF);
  }
  return bytes;
}

std::string body_of(const Json& step) {
  if (const Json* body = step.find("body")) return body->dump();
  if (const Json* raw = step.find("raw_body")) return raw->as_string();
  if (const Json* coded = step.find("raw_body_b64")) return from_base64(coded->as_string());
  if (const Json* repeat = step.find("raw_body_repeat")) {
    const Json::Array& parts = repeat->as_array();
    std::string text = parts[0].as_string();
    for (std::int64_t i = 0; i < parts[2].as_integer().value(); ++i) text += parts[1].as_string();
    return text + parts[3].as_string();
  }
  return {};
}

std::string text_of(const Json& step) {
  RequestHeaders headers;
  if (const Json* given = step.find("headers")) {
    for (const auto& [name, value] : given->as_object()) headers.emplace_back(name, value.as_string());
  }
  return request_text(step.find("method")->as_string(), step.find("path")->as_string(), body_of(step),
                      headers);
}

std::chrono::milliseconds milliseconds_of(const Json& step, const char* name,
                                          std::chrono::milliseconds otherwise) {
  const Json* value = step.find(name);
  return value == nullptr ? otherwise : std::chrono::milliseconds(value->as_integer().value());
}

std::chrono::milliseconds since(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
}

StepResult run_step(const Json& step, int port) {
  StepResult result;
  if (const Json* body = step.find("body")) result.body = *body;
  const auto start = Clock::now();
  HttpClient client(port);
  client.send(text_of(step));
  if (step.find("abort_after_ms") != nullptr) {
    std::this_thread::sleep_for(milliseconds_of(step, "abort_after_ms", 0ms));
    client.close();
    result.aborted = true;
    return result;
  }
  const auto patience = milliseconds_of(step, "timeout_ms", 20s);
  if (client.wait_for("\r\n\r\n", patience)) result.until_head = since(start);
  result.reply = client.receive(patience);
  result.longest_silence = client.longest_silence();
  return result;
}

StepResult run_raw(const Json& input, int port) {
  StepResult result;
  HttpClient client(port);
  client.send(input.find("raw_request")->as_string());
  if (input.find("then") != nullptr) return result;  // "close": without waiting for a reply
  result.reply = client.receive();
  result.reply.connection_closed |= client.closed_within(500ms);
  return result;
}

std::optional<std::chrono::milliseconds> time_to_idle(int port) {
  const auto start = Clock::now();
  while (since(start) < 10s) {
    if (get(port, "/health").at("active") == "0") return since(start);
    std::this_thread::sleep_for(5ms);
  }
  return std::nullopt;
}

}  // namespace

CaseResult run_case(const Json& input, int port) {
  CaseResult result;
  const long resident = resident_mib();
  std::optional<HttpClient> stalled;
  if (const Json* step = input.find("stalled_reader")) {
    stalled.emplace(port, 4096);
    stalled->send(text_of(*step));
    EXPECT_TRUE(stalled->wait_for("data: "));
  }
  if (input.find("raw_request") != nullptr) result.steps.push_back(run_raw(input, port));
  if (const Json* steps = input.find("steps")) {
    for (const Json& step : steps->as_array()) {
      result.steps.push_back(run_step(step, port));
      if (result.steps.back().aborted) result.idle_after = time_to_idle(port);
    }
  }
  if (const Json* concurrent = input.find("concurrent")) {
    result.concurrent.resize(concurrent->as_array().size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < result.concurrent.size(); ++i) {
      threads.emplace_back([&, i] { result.concurrent[i] = run_step(concurrent->as_array()[i], port); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  result.resident_growth_mib = resident_mib() - resident;
  result.health = get(port, "/health").status;
  return result;
}

}  // namespace lily::serve_test
