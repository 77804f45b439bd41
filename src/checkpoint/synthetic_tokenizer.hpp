// A byte-level tokenizer of any size for synthetic checkpoints.
#pragma once

#include <string>

namespace lily::checkpoint {

// tokenizer.json with the 256 bytes, merges of printable ASCII up to `first_control_id`, and the 33 control
// tokens of the family from there on.
std::string synthetic_tokenizer(int first_control_id);

// What a checkpoint needs to know of a tokenizer.json.
struct TokenizerFacts {
  int highest_id = 0;
  int end_of_text = 0;  // <|endoftext|>
  int end_of_turn = 0;  // <|im_end|>
};
// Throws Error naming the file when it has no such tokens.
TokenizerFacts read_tokenizer_facts(const std::string& json, const std::string& name);

}  // namespace lily::checkpoint
