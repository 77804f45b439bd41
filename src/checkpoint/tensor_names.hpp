// One name per tensor, however the checkpoint spells its prefix.
#pragma once

#include <string>
#include <string_view>

namespace lily::checkpoint {

// Converters disagree on the prefix of the text model: "language_model.model.X", "model.language_model.X" and
// "model.X" all become "model.X"; "language_model.lm_head.X" becomes "lm_head.X". Other names stay.
std::string canonical_name(std::string_view name);

}  // namespace lily::checkpoint
