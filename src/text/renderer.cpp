// The chat format, turn by turn. Deviations from the published template: docs/model.md, "Chat format".
#include "text/renderer.hpp"

#include <fmt/format.h>

#include "base/published_template.hpp"
#include "lily/error.hpp"
#include "text/prompt_writer.hpp"
#include "text/strip.hpp"

namespace lily {

std::string RenderedPrompt::text() const {
  std::string joined;
  for (const PromptSegment& segment : segments) joined += segment.text;
  return joined;
}

}  // namespace lily

namespace lily::text {
namespace {

using Segments = std::vector<PromptSegment>;

constexpr std::string_view kToolsHead = "# Tools\n\nYou have access to the following functions:\n\n<tools>";
constexpr std::string_view kToolsTail =
    "\n</tools>\n\n"
    "If you choose to call a function ONLY reply in the following format with NO suffix:\n\n"
    "<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n</parameter>\n"
    "<parameter=example_parameter_2>\nThis is the value for the second parameter\nthat can span\nmultiple "
    "lines\n"
    "</parameter>\n</function>\n</tool_call>\n\n"
    "<IMPORTANT>\nReminder:\n"
    "- Function calls MUST follow the specified format: an inner <function=...></function> block must be "
    "nested "
    "within <tool_call></tool_call> XML tags\n"
    "- Required parameters MUST be specified\n"
    "- You may provide optional reasoning for your function call in natural language BEFORE the function "
    "call, "
    "but NOT after\n"
    "- If there is no function call available, answer the question like normal with your current knowledge "
    "and "
    "do not tell the user about function calls\n"
    "</IMPORTANT>";

bool is_system(const Message& message) {
  return message.role == Role::system || message.role == Role::developer;
}

void strip_ends(Segments& segments) {
  if (!segments.empty() && !segments.front().control) {
    segments.front().text = strip_front(segments.front().text);
  }
  if (!segments.empty() && !segments.back().control) segments.back().text = strip_back(segments.back().text);
  std::erase_if(segments, [](const PromptSegment& segment) { return segment.text.empty(); });
}

std::string_view without_newlines_at_front(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  return text;
}

struct AssistantText {
  std::string reasoning;
  Segments content;
};

// Takes reasoning written into the content, "<think>...</think>answer", apart. Only where the content begins
// with the tag, and only up to the first closing tag: an answer that talks about the tags must stay whole.
AssistantText split_inline_reasoning(Segments content) {
  constexpr std::string_view kOpen = "<think>";
  constexpr std::string_view kClose = "</think>";
  if (content.empty() || content.front().control) return {"", std::move(content)};
  std::string& text = content.front().text;
  const std::size_t close = text.find(kClose);
  if (!std::string_view(text).starts_with(kOpen) || close == std::string::npos)
    return {"", std::move(content)};
  std::string reasoning = text.substr(kOpen.size(), close - kOpen.size());
  text = without_newlines_at_front(std::string_view(text).substr(close + kClose.size()));
  if (text.empty()) content.erase(content.begin());
  return {std::move(reasoning), std::move(content)};
}

class Renderer {
 public:
  explicit Renderer(const ChatPrompt& prompt) : prompt_(prompt), messages_(prompt.messages) {}

  RenderedPrompt render() {
    if (messages_.empty())
      throw Error(ErrorKind::bad_input, "messages is empty; it needs at least one", "messages");
    check_continuation();
    const std::size_t turns = render_head();
    const std::size_t first_after_query = first_after_last_query();
    for (std::size_t i = turns; i < messages_.size(); ++i) {
      switch (messages_[i].role) {
        case Role::system:
        case Role::developer:
          plain_turn("system", content_of(i));
          break;
        case Role::user:
          plain_turn("user", content_of(i));
          break;
        case Role::assistant:
          assistant_turn(i, prompt_.preserve_thinking || i >= first_after_query);
          break;
        case Role::tool:
          tool_result(i);
          break;
      }
    }
    const bool opens_answer = prompt_.add_generation_prompt && !prompt_.continue_final_message;
    if (opens_answer) {
      out_.format(prompt_.enable_thinking ? "<|im_start|>assistant\n<think>\n"
                                          : "<|im_start|>assistant\n<think>\n\n</think>\n\n");
    }
    return {.segments = out_.take(), .in_think = opens_answer && prompt_.enable_thinking};
  }

 private:
  [[noreturn]] static void refuse(std::size_t message, std::string_view field, const std::string& why) {
    const std::string param = fmt::format("messages[{}]{}", message, field);
    throw Error(ErrorKind::bad_input, fmt::format("{} {}", param, why), param);
  }

  void check_continuation() const {
    if (!prompt_.continue_final_message) return;
    const Message& last = messages_.back();
    if (last.role != Role::assistant) {
      throw Error(
          ErrorKind::bad_input,
          fmt::format("continue_final_message needs an assistant message at the end, messages[{}] is none",
                      messages_.size() - 1),
          "continue_final_message");
    }
    if (!last.tool_calls.empty()) {
      refuse(messages_.size() - 1, ".tool_calls",
             "cannot be continued: a message with tool calls is complete");
    }
  }

  // The system turn: tools, then the leading system messages merged into one. Returns how many those are.
  std::size_t render_head() {
    std::size_t count = 0;
    PromptWriter merged;
    for (; count < messages_.size() && is_system(messages_[count]); ++count) {
      const Segments content = content_of(count);
      if (!content.empty() && !merged.segments().empty()) merged.plain("\n\n");
      merged.append(content);
    }
    if (count == 0 && prompt_.tools.empty()) return 0;
    out_.format("<|im_start|>system\n");
    if (!prompt_.tools.empty()) {
      out_.format(kToolsHead);
      for (const Json& tool : prompt_.tools) {
        out_.plain("\n");
        out_.plain(tool.dump_python());
      }
      out_.format(kToolsTail);
      if (!merged.segments().empty()) out_.plain("\n\n");
    }
    out_.append(merged.segments());
    out_.format("<|im_end|>\n");
    return count;
  }

  // Answers after the last user message keep their reasoning. Without any user message all of them do.
  std::size_t first_after_last_query() const {
    for (std::size_t i = messages_.size(); i > 0; --i) {
      if (messages_[i - 1].role == Role::user) return i;
    }
    return 0;
  }

  // The content of message i as written, parts joined without separators.
  Segments raw_content_of(std::size_t i) {
    PromptWriter writer;
    for (const ContentPart& part : messages_[i].content) {
      if (part.kind == ContentPart::Kind::text) {
        writer.plain(part.text);
        continue;
      }
      const bool image = part.kind == ContentPart::Kind::image;
      if (is_system(messages_[i])) {
        refuse(i, ".content",
               image ? "is a system message and cannot contain images"
                     : "is a system message and cannot contain videos");
      }
      std::size_t& number = image ? images_ : videos_;
      ++number;
      if (prompt_.add_vision_id) writer.plain(fmt::format("{} {}: ", image ? "Picture" : "Video", number));
      writer.format(image ? "<|vision_start|><|image_pad|><|vision_end|>"
                          : "<|vision_start|><|video_pad|><|vision_end|>");
    }
    return writer.take();
  }

  Segments content_of(std::size_t i) {
    Segments content = raw_content_of(i);
    strip_ends(content);
    return content;
  }

  void plain_turn(std::string_view role, const Segments& content) {
    out_.format("<|im_start|>");
    out_.plain(role);
    out_.plain("\n");
    out_.append(content);
    out_.format("<|im_end|>\n");
  }

  void assistant_turn(std::size_t i, bool with_reasoning) {
    const Message& message = messages_[i];
    // What is to be continued must end as it was given: a space at its end belongs to the next word.
    const bool continued = prompt_.continue_final_message && i + 1 == messages_.size();
    Segments content = continued ? raw_content_of(i) : content_of(i);
    const AssistantText text = message.reasoning ? AssistantText{*message.reasoning, std::move(content)}
                                                 : split_inline_reasoning(std::move(content));
    out_.format("<|im_start|>assistant\n");
    if (with_reasoning) {
      out_.format("<think>\n");
      out_.plain(strip(text.reasoning));
      out_.format("\n</think>\n\n");
    }
    out_.append(text.content);
    for (std::size_t call = 0; call < message.tool_calls.size(); ++call) {
      if (call > 0) {
        out_.plain("\n");
      } else if (!text.content.empty()) {
        out_.plain("\n\n");
      }
      tool_call(i, call);
    }
    if (!continued) out_.format("<|im_end|>\n");
  }

  void tool_call(std::size_t i, std::size_t index) {
    const ToolCall& call = messages_[i].tool_calls[index];
    out_.format("<tool_call>\n<function=");
    out_.plain(call.name);
    out_.plain(">\n");
    if (!call.arguments.is_null()) {
      if (!call.arguments.is_object()) {
        refuse(i, fmt::format(".tool_calls[{}].function.arguments", index),
               fmt::format("must be an object, found {}", call.arguments.kind_name()));
      }
      for (const auto& [name, value] : call.arguments.as_object()) {
        out_.plain(fmt::format("<parameter={}>\n", name));
        out_.plain(value.is_string() ? value.as_string() : value.dump_python());
        out_.plain("\n</parameter>\n");
      }
    }
    out_.format("</function>\n</tool_call>");
  }

  // Results that follow each other share one user turn.
  void tool_result(std::size_t i) {
    const auto is_tool = [&](std::size_t k) {
      return k < messages_.size() && messages_[k].role == Role::tool;
    };
    if (i == 0 || !is_tool(i - 1)) out_.format("<|im_start|>user");
    out_.format("\n<tool_response>\n");
    out_.append(content_of(i));
    out_.format("\n</tool_response>");
    if (!is_tool(i + 1)) out_.format("<|im_end|>\n");
  }

  const ChatPrompt& prompt_;
  const std::vector<Message>& messages_;
  PromptWriter out_;
  std::size_t images_ = 0;
  std::size_t videos_ = 0;
};

}  // namespace

RenderedPrompt render(const ChatPrompt& prompt) { return Renderer(prompt).render(); }

bool is_known_template(std::string_view chat_template) { return chat_template == published_chat_template(); }

}  // namespace lily::text
