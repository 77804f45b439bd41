// Reads tool_choice in all the forms of OpenAI's interface.
#include "serve/tool_choice.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "lily/error.hpp"
#include "serve/echo.hpp"

namespace lily::serve {
namespace {

constexpr std::size_t kNameShown = 60;

[[noreturn]] void refuse(ErrorKind kind, const std::string& message) {
  throw Error(kind, message, "tool_choice");
}

bool has_function(const std::vector<Json>& tools, const std::string& name) {
  return std::any_of(tools.begin(), tools.end(), [&](const Json& tool) {
    const Json* function = tool.find("function");
    const Json* found = function == nullptr ? nullptr : function->find("name");
    return found != nullptr && found->is_string() && found->as_string() == name;
  });
}

[[noreturn]] void refuse_named(const Json& choice, const ChatPrompt& prompt) {
  const Json* function = choice.find("function");
  const Json* name = function == nullptr ? nullptr : function->find("name");
  if (name == nullptr || !name->is_string()) {
    refuse(ErrorKind::unsupported,
           "tool_choice may be \"auto\" or \"none\"; choosing among tools is not supported yet");
  }
  if (!has_function(prompt.tools, name->as_string())) {
    refuse(ErrorKind::bad_input, fmt::format("tool_choice names the function \"{}\", which is not in tools",
                                             shortened(name->as_string(), kNameShown)));
  }
  refuse(ErrorKind::unsupported,
         "tool_choice may be \"auto\" or \"none\"; a named function is not supported yet");
}

}  // namespace

void apply_tool_choice(const FieldReader& fields, ChatPrompt& prompt, GenerationRequest& generation) {
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr) return;
  if (choice->is_object()) refuse_named(*choice, prompt);
  const std::string mode = choice->is_string() ? choice->as_string() : std::string();
  if (mode == "auto") return;
  if (mode == "required") {
    if (prompt.tools.empty())
      refuse(ErrorKind::bad_input, "tool_choice is \"required\" but there are no tools");
    refuse(ErrorKind::unsupported,
           "tool_choice may be \"auto\" or \"none\"; \"required\" is not supported yet");
  }
  if (mode != "none") {
    refuse(ErrorKind::bad_input,
           "tool_choice must be \"auto\", \"none\", \"required\" or an object naming a function");
  }
  prompt.tools.clear();
  generation.parse_tool_calls = false;
}

}  // namespace lily::serve
