// API keys: reading them from a file and recognising them in a request's headers.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace lily::serve {

// One key a line; blank lines and lines that begin with '#' are skipped. Throws Error: not_found, bad_input
// (no key at all, or characters that an Authorization header cannot carry; the key itself is never shown).
std::vector<std::string> read_api_keys(const std::filesystem::path& file);

// Throws Error(bad_input) unless every key is made of the characters of RFC 6750's b64token.
void check_api_keys(const std::vector<std::string>& keys);

// Whether one of `keys` is in the Authorization header ("Bearer KEY", scheme in any case) or the x-api-key
// header. The time taken does not depend on where a wrong key differs.
bool authorized(const std::vector<std::string>& keys, std::string_view authorization,
                std::string_view x_api_key);

}  // namespace lily::serve
