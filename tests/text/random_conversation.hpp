// Random conversations for the differential test of the renderer: odd text, odd order, tools and options.
#pragma once

#include <random>
#include <string>

#include "lily/json.hpp"

namespace lily::text {

// One conversation in two forms: the variables the published template takes, and a request body that says the
// same in the other ways clients have (arguments as a string, options in chat_template_kwargs, "reasoning").
struct Conversation {
  Json variables;
  Json body;
};

class RandomConversations {
 public:
  explicit RandomConversations(unsigned seed) : random_(seed) {}
  Conversation next();

 private:
  std::size_t below(std::size_t bound);
  bool one_in(std::size_t n) { return below(n) == 0; }
  std::string text();
  Json value(int depth);
  Json tool();
  Json content(bool may_hold_images);
  void add_message(const std::string& role, Json::Array& variables, Json::Array& body);

  std::mt19937 random_;
};

}  // namespace lily::text
