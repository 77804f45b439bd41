// Reads lines from a person: with editing and history in a terminal, plainly elsewhere.
#pragma once

#include <memory>
#include <string>

namespace lily::cli {

enum class LineResult { line, interrupted, end };

// The history lives in memory only: what is typed into a chat is not written to disk.
class LineEditor {
 public:
  explicit LineEditor(std::string prompt);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // The next line without its line feed. A line that ends in a backslash goes on in the next one.
  LineResult read(std::string& line);

 private:
  struct Terminal;
  LineResult read_one(std::string& line);

  std::unique_ptr<Terminal> terminal_;  // null when standard input is none
};

}  // namespace lily::cli
