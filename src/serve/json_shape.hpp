// A look at the size of a JSON text's tree before it is built.
#pragma once

#include <cstddef>
#include <string_view>

namespace lily::serve {

// A value costs far more memory parsed than written ("1," is two bytes), so the count is bounded, not the
// text.
inline constexpr std::size_t kMaxJsonValues = 1'000'000;

// Throws Error(bad_input) when `text`, which need not be valid JSON, holds more than `limit` values.
void check_json_values(std::string_view text, std::size_t limit = kMaxJsonValues);

}  // namespace lily::serve
