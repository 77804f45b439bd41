// Parsing of untrusted JSON through nlohmann-json's event parser.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "lily/error.hpp"
#include "lily/json.hpp"

namespace lily {
namespace {

std::vector<std::size_t> order_by_key(const Json::Object& members) {
  std::vector<std::size_t> order(members.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return members[a].first < members[b].first; });
  return order;
}

// Of members with one key, keeps the first position and the last value. Sorting rather than hashing: a
// hostile object with a million keys must not cost more than n log n.
void merge_duplicate_keys(Json::Object& members) {
  const std::vector<std::size_t> order = order_by_key(members);
  std::vector<bool> superseded(members.size(), false);
  bool any = false;
  for (std::size_t i = 1, first = 0; i < order.size(); ++i) {
    if (members[order[i]].first != members[order[first]].first) {
      first = i;
      continue;
    }
    members[order[first]].second = std::move(members[order[i]].second);
    superseded[order[i]] = true;
    any = true;
  }
  if (!any) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (superseded[i]) continue;
    if (kept != i) members[kept] = std::move(members[i]);
    ++kept;
  }
  members.erase(members.begin() + static_cast<std::ptrdiff_t>(kept), members.end());
}

// The library's diagnosis without its prefix and without the text it read: request data does not belong in
// error messages, and it may not be valid UTF-8.
std::string reason_of(const std::string& diagnosis) {
  const std::size_t begin = diagnosis.find("while parsing");
  if (begin == std::string::npos) return "not a JSON text";
  return diagnosis.substr(begin, diagnosis.find("; last read", begin) - begin);
}

// Builds a Json from the parser's events. `open_` points into the tree: a container cannot move while one of
// its elements is open.
class Builder {
 public:
  explicit Builder(const JsonLimits& limits) : limits_(limits) {}

  Json take() { return std::move(root_); }

  bool null() { return add({}), true; }
  bool boolean(bool value) { return add(Json::boolean(value)), true; }
  bool number_integer(std::int64_t value) { return add(Json::integer(value)), true; }
  bool number_unsigned(std::uint64_t value) { return add(Json::number(std::to_string(value))), true; }
  bool number_float(double, const std::string& spelling) { return add(Json::number(spelling)), true; }
  bool string(std::string& value) { return add(Json::string(std::move(value))), true; }
  bool binary(std::vector<std::uint8_t>&) { return false; }  // never sent for JSON text

  bool start_object(std::size_t) { return open(Json::object()); }
  bool key(std::string& name) {
    open_.back()->as_object().emplace_back(std::move(name), Json());
    return true;
  }
  bool end_object() {
    merge_duplicate_keys(open_.back()->as_object());
    open_.pop_back();
    return true;
  }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_array() {
    open_.pop_back();
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) {
    if (dynamic_cast<const nlohmann::detail::out_of_range*>(&error) != nullptr) {
      throw Error(
          ErrorKind::bad_input,
          fmt::format("JSON: the number ending at byte {} is beyond the range of a double", position));
    }
    throw Error(ErrorKind::bad_input,
                fmt::format("JSON: malformed at byte {}: {}", position, reason_of(error.what())));
  }

 private:
  Json& add(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    Json& parent = *open_.back();
    if (parent.is_array()) return parent.as_array().emplace_back(std::move(value));
    return parent.as_object().back().second = std::move(value);
  }

  bool open(Json container) {
    if (open_.size() >= limits_.max_depth) {
      throw Error(ErrorKind::bad_input,
                  fmt::format("JSON: nested deeper than the limit of {} levels", limits_.max_depth));
    }
    open_.push_back(&add(std::move(container)));
    return true;
  }

  const JsonLimits limits_;
  Json root_;
  std::vector<Json*> open_;
};

}  // namespace

Json Json::parse(std::string_view text, const JsonLimits& limits) {
  // To the library a zero byte is the end of the text, whatever follows it.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    throw Error(ErrorKind::bad_input, fmt::format("JSON: malformed at byte {}: a zero byte", zero + 1));
  }
  Builder builder(limits);
  nlohmann::json::sax_parse(text, &builder);  // the builder throws on every failure
  return builder.take();
}

}  // namespace lily
