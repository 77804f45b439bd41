// A request, checked as a whole before anything runs.
#include "engine/prepare_request.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "lily/error.hpp"

namespace lily::engine {
namespace {

// Enough for every client seen; keeps the work per character of an answer bounded.
constexpr std::size_t kMaxStopStrings = 64;
constexpr std::size_t kMaxStopBytes = 4096;
// Tokens of a prompt that are counted, in contexts: whoever sends a little too much learns how much, and a
// huge text keeps nobody busy.
constexpr std::size_t kCountedContexts = 4;

struct Prompt {
  std::vector<TokenId> ids;
  bool in_think = false;
  const char* param = "prompt";  // the field a complaint names
};

void refuse_media(const ChatPrompt& chat) {
  for (std::size_t m = 0; m < chat.messages.size(); ++m) {
    for (std::size_t part = 0; part < chat.messages[m].content.size(); ++part) {
      const ContentPart::Kind kind = chat.messages[m].content[part].kind;
      if (kind == ContentPart::Kind::text) continue;
      throw Error(ErrorKind::unsupported,
                  fmt::format("messages[{}] holds {}; this engine reads text only", m,
                              kind == ContentPart::Kind::image ? "an image" : "a video"),
                  fmt::format("messages[{}].content[{}]", m, part));
    }
  }
}

[[noreturn]] void refuse_length(const std::string& tokens, int context, const char* param) {
  throw Error(ErrorKind::too_long,
              fmt::format("the prompt has {} tokens; the context is {} and must hold at least one token of "
                          "the answer too",
                          tokens, context),
              param);
}

// The ids that encode(most) gives.
template <class Encode>
std::vector<TokenId> encode_for(int context, const char* param, const Encode& encode) {
  const std::size_t most = kCountedContexts * static_cast<std::size_t>(context);
  try {
    return encode(most);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::too_long) throw;
    refuse_length(fmt::format("more than {}", most), context, param);
  }
}

Prompt read_prompt(const ChatPrompt& chat, const TextProtocol& text, int context) {
  refuse_media(chat);
  const RenderedPrompt rendered = text.render(chat);
  constexpr const char* kParam = "messages";
  return {encode_for(context, kParam, [&](std::size_t most) { return text.encode(rendered, most); }),
          rendered.in_think, kParam};
}

Prompt read_prompt(const std::string& continued, const TextProtocol& text, int context) {
  Prompt prompt;
  prompt.ids =
      encode_for(context, prompt.param, [&](std::size_t most) { return text.encode(continued, true, most); });
  return prompt;
}

Prompt read_prompt(const std::vector<TokenId>& ids, const TextProtocol& text, int /*context*/) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && static_cast<std::size_t>(ids[i]) < text.vocabulary_size()) continue;
    throw Error(
        ErrorKind::bad_input,
        fmt::format("prompt[{}] is {}; token ids run from 0 to {}", i, ids[i], text.vocabulary_size() - 1),
        fmt::format("prompt[{}]", i));
  }
  return {.ids = ids};
}

void check_length(const Prompt& prompt, int context) {
  if (prompt.ids.empty()) {
    throw Error(ErrorKind::bad_input, "the prompt is empty; at least one token is needed", prompt.param);
  }
  if (prompt.ids.size() < static_cast<std::size_t>(context)) return;
  refuse_length(std::to_string(prompt.ids.size()), context, prompt.param);
}

void check_stop_strings(const std::vector<std::string>& stop_strings) {
  if (stop_strings.size() > kMaxStopStrings) {
    throw Error(
        ErrorKind::bad_input,
        fmt::format("stop holds {} strings; at most {} are allowed", stop_strings.size(), kMaxStopStrings),
        "stop");
  }
  for (std::size_t i = 0; i < stop_strings.size(); ++i) {
    if (!stop_strings[i].empty() && stop_strings[i].size() <= kMaxStopBytes) continue;
    throw Error(
        ErrorKind::bad_input,
        fmt::format("stop[{}] has {} bytes; it must have 1 to {}", i, stop_strings[i].size(), kMaxStopBytes),
        fmt::format("stop[{}]", i));
  }
}

// Where all tokens are banned no choice would be one.
void check_choice(const std::map<TokenId, float>& logit_bias, bool ignore_eos, const RequestRules& rules) {
  const auto tokens = static_cast<std::size_t>(rules.allowed.count());
  if (logit_bias.empty() || logit_bias.size() + rules.stop_ids.size() < tokens) return;
  const TokenRanges allowed = ignore_eos ? rules.allowed.without(rules.stop_ids) : rules.allowed;
  for (const TokenRange& range : allowed) {
    for (TokenId id = range.begin; id < range.end; ++id) {
      const auto bias = logit_bias.find(id);
      if (bias == logit_bias.end() || bias->second > kBannedBias) return;
    }
  }
  throw Error(ErrorKind::bad_input,
              fmt::format("logit_bias bans all {} tokens that can be chosen", allowed.count()), "logit_bias");
}

int checked_max_tokens(const std::optional<int>& requested) {
  if (requested && *requested < 1) {
    throw Error(ErrorKind::bad_input, fmt::format("max_tokens is {}; it must be at least 1", *requested),
                "max_tokens");
  }
  return requested.value_or(std::numeric_limits<int>::max());
}

}  // namespace

PreparedRequest prepare_request(const GenerationRequest& request, const RequestRules& rules) {
  PreparedRequest prepared;
  prepared.sampling = resolve_sampling(request.sampling, rules.defaults, rules.text.vocabulary_size());
  check_choice(prepared.sampling.logit_bias, request.ignore_eos, rules);
  check_stop_strings(request.stop_strings);
  const int max_tokens = checked_max_tokens(request.max_tokens);

  Prompt prompt = std::visit([&](const auto& value) { return read_prompt(value, rules.text, rules.context); },
                             request.prompt);
  check_length(prompt, rules.context);
  prepared.max_new_tokens = std::min(max_tokens, rules.context - static_cast<int>(prompt.ids.size()));
  prepared.prompt = std::move(prompt.ids);
  prepared.ignore_eos = request.ignore_eos;
  prepared.parser.in_think = prompt.in_think;
  prepared.parser.stop_strings = request.stop_strings;
  if (const auto* chat = std::get_if<ChatPrompt>(&request.prompt); chat && request.parse_tool_calls) {
    prepared.parser.tools = chat->tools;
  }
  return prepared;
}

}  // namespace lily::engine
