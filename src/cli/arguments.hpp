// A program's command line and the options of its commands, over CLI11 without its header: including that
// costs six seconds per file.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace lily::cli {

class Program {
 public:
  Program(const std::string& name, const std::string& description);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // --version prints `text`.
  Program& version(const std::string& text);
  // One command must be given; `examples` end the help.
  Program& commands(const std::string& examples);
  CLI::App& app() { return *app_; }

  // Parses and runs. Returns the exit code: 0, also after --help, or 2 after telling standard error what is
  // wrong with the arguments. What a command throws passes through.
  int run(int argc, char** argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

// Each call adds something and returns *this; required(), range(), one_of() and only_with() speak of the
// option added last. Help texts name the default, because the referred value is not printed.
class Arguments {
 public:
  // Of the program itself, which then has no commands.
  explicit Arguments(CLI::App& program);
  // Adds a command to the program.
  Arguments(CLI::App& program, const std::string& name, const std::string& description);

  // T: std::string, std::filesystem::path, int, std::uint64_t, std::optional of float, int or std::uint64_t.
  // A name without dashes is positional. `value` must outlive the command's run.
  template <typename T>
  Arguments& option(const std::string& name, T& value, const std::string& help, const std::string& type = "");
  Arguments& option(const std::string& name, const std::function<void(const std::string&)>& take,
                    const std::string& help, const std::string& type = "");
  Arguments& flag(const std::string& name, bool& value, const std::string& help);
  // --name 1,2,3
  Arguments& list(const std::string& name, std::vector<int>& values, const std::string& help);
  // --name A --name B
  Arguments& repeated(const std::string& name, std::vector<std::string>& values, const std::string& help,
                      const std::string& type);

  Arguments& required();
  Arguments& range(int low, int high);
  Arguments& one_of(const std::vector<std::string>& values);
  // The option added last is refused without the one named.
  Arguments& only_with(const std::string& name);
  // Exactly one of the named options must be given.
  Arguments& exactly_one(const std::vector<std::string>& names);

  // Heading for the options that follow in --help.
  Arguments& group(const std::string& name);
  Arguments& examples(const std::string& text);
  void run(std::function<void()> body);

 private:
  Arguments& added(CLI::Option* option, const std::string& type);

  CLI::App* command_;
  CLI::Option* last_ = nullptr;
  std::string group_;
};

}  // namespace lily::cli
