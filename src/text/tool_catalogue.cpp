// Look-up of tools and parameters in the tools of a request.
#include "text/tool_catalogue.hpp"

#include <utility>

namespace lily::text {

ToolCatalogue::ToolCatalogue(std::vector<Json> tools) : tools_(std::move(tools)) {
  for (const Json& tool : tools_) {
    const Json* wrapped = tool.find("function");
    const Json& function = wrapped == nullptr ? tool : *wrapped;
    const Json* name = function.find("name");
    if (name != nullptr && name->is_string())
      parameters_.emplace(name->as_string(), function.find("parameters"));
  }
}

const Json* ToolCatalogue::property(std::string_view tool, std::string_view parameter) const {
  const auto found = parameters_.find(tool);
  if (found == parameters_.end() || found->second == nullptr) return nullptr;
  const Json* properties = found->second->find("properties");
  return properties == nullptr ? nullptr : properties->find(parameter);
}

bool ToolCatalogue::declares(std::string_view tool, std::string_view parameter) const {
  return property(tool, parameter) != nullptr;
}

ValueTypes ToolCatalogue::types(std::string_view tool, std::string_view parameter) const {
  const Json* schema = property(tool, parameter);
  return schema == nullptr ? ValueTypes{} : value_types(*schema, *parameters_.find(tool)->second);
}

}  // namespace lily::text
