// The text protocol over a tokenizer that the caller keeps too.
#pragma once

#include <filesystem>
#include <memory>

#include "lily/text.hpp"
#include "text/tokenizer.hpp"

namespace lily::text {

// As TextProtocol::open of the folder `tokenizer` came from, without reading it again.
std::shared_ptr<const TextProtocol> open_protocol(const std::filesystem::path& checkpoint,
                                                  std::shared_ptr<const Tokenizer> tokenizer);

}  // namespace lily::text
