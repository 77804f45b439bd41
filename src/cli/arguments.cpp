// A program's command line and the options of its commands, over CLI11.
#include "cli/arguments.hpp"

#include <fmt/core.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

namespace lily::cli {

namespace {

constexpr int kUsage = 2;

}  // namespace

Program::Program(const std::string& name, const std::string& description)
    : app_(std::make_unique<CLI::App>(description, name)) {}

Program::~Program() = default;

Program& Program::version(const std::string& text) {
  app_->set_version_flag("--version", text);
  return *this;
}

Program& Program::commands(const std::string& examples) {
  app_->require_subcommand(1);
  app_->get_formatter()->column_width(32);
  app_->footer(examples);
  return *this;
}

int Program::run(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
    return 0;
  } catch (const CLI::Success& success) {  // --help and --version
    return app_->exit(success);
  } catch (const CLI::ParseError& error) {
    const auto chosen = app_->get_subcommands();
    fmt::print(stderr, "{0}: error: {1}\nsee: {0} {2}--help\n", app_->get_name(), error.what(),
               chosen.empty() ? "" : chosen.front()->get_name() + " ");
    return kUsage;
  }
}

Arguments::Arguments(CLI::App& program) : command_(&program) {}

Arguments::Arguments(CLI::App& program, const std::string& name, const std::string& description)
    : command_(program.add_subcommand(name, description)) {}

Arguments& Arguments::added(CLI::Option* option, const std::string& type) {
  last_ = option;
  if (!group_.empty()) option->group(group_);
  option->type_name(type);
  return *this;
}

template <typename T>
Arguments& Arguments::option(const std::string& name, T& value, const std::string& help,
                             const std::string& type) {
  return added(command_->add_option(name, value, help), type);
}

template Arguments& Arguments::option(const std::string&, std::string&, const std::string&,
                                      const std::string&);
template Arguments& Arguments::option(const std::string&, std::filesystem::path&, const std::string&,
                                      const std::string&);
template Arguments& Arguments::option(const std::string&, int&, const std::string&, const std::string&);
template Arguments& Arguments::option(const std::string&, std::uint64_t&, const std::string&,
                                      const std::string&);
template Arguments& Arguments::option(const std::string&, std::optional<float>&, const std::string&,
                                      const std::string&);
template Arguments& Arguments::option(const std::string&, std::optional<int>&, const std::string&,
                                      const std::string&);
template Arguments& Arguments::option(const std::string&, std::optional<std::uint64_t>&, const std::string&,
                                      const std::string&);

Arguments& Arguments::option(const std::string& name, const std::function<void(const std::string&)>& take,
                             const std::string& help, const std::string& type) {
  return added(command_->add_option_function<std::string>(name, take, help), type);
}

Arguments& Arguments::flag(const std::string& name, bool& value, const std::string& help) {
  return added(command_->add_flag(name, value, help), "");
}

Arguments& Arguments::list(const std::string& name, std::vector<int>& values, const std::string& help) {
  return added(command_->add_option(name, values, help)->delimiter(',')->allow_extra_args(false), "N[,N]");
}

Arguments& Arguments::repeated(const std::string& name, std::vector<std::string>& values,
                               const std::string& help, const std::string& type) {
  return added(command_->add_option(name, values, help)->take_all()->expected(1)->allow_extra_args(false),
               type);
}

Arguments& Arguments::required() {
  last_->required();
  return *this;
}

Arguments& Arguments::range(int low, int high) {
  // A validator describes itself in --help; the help text already does.
  last_->check(CLI::Range(low, high).description(""));
  return *this;
}

Arguments& Arguments::one_of(const std::vector<std::string>& values) {
  last_->check(CLI::IsMember(values).description(""));
  last_->type_name(CLI::detail::join(values, "|"));
  return *this;
}

Arguments& Arguments::only_with(const std::string& name) {
  last_->needs(command_->get_option(name));
  return *this;
}

Arguments& Arguments::exactly_one(const std::vector<std::string>& names) {
  std::vector<CLI::Option*> options;
  for (const std::string& name : names) {
    CLI::Option* option = command_->get_option(name);
    for (CLI::Option* other : options) option->excludes(other);
    options.push_back(option);
  }
  command_->parse_complete_callback([options, names] {
    for (const CLI::Option* option : options) {
      if (option->count() > 0) return;
    }
    throw CLI::RequiredError(CLI::detail::join(names, " or "));
  });
  return *this;
}

Arguments& Arguments::group(const std::string& name) {
  group_ = name;
  return *this;
}

Arguments& Arguments::examples(const std::string& text) {
  command_->footer(text);
  return *this;
}

void Arguments::run(std::function<void()> body) { command_->callback(std::move(body)); }

}  // namespace lily::cli
