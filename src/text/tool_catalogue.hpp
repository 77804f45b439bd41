// The tools of a request as the answer parser needs them: which names exist, and the types of their
// parameters.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lily/json.hpp"
#include "text/argument_value.hpp"

namespace lily::text {

class ToolCatalogue {
 public:
  explicit ToolCatalogue(std::vector<Json> tools);
  ToolCatalogue(const ToolCatalogue&) = delete;  // parameters_ points into tools_
  ToolCatalogue& operator=(const ToolCatalogue&) = delete;

  bool empty() const { return tools_.empty(); }
  bool has(std::string_view tool) const { return parameters_.contains(tool); }
  // True when the schema of the tool declares the parameter.
  bool declares(std::string_view tool, std::string_view parameter) const;
  // Unknown where nothing is declared.
  ValueTypes types(std::string_view tool, std::string_view parameter) const;

 private:
  const Json* property(std::string_view tool, std::string_view parameter) const;

  std::vector<Json> tools_;
  std::map<std::string, const Json*, std::less<>> parameters_;  // the schema object in tools_, or nullptr
};

}  // namespace lily::text
