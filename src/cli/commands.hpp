// The commands of the program: each adds itself, with its options and the function that runs it.
#pragma once

namespace CLI {
class App;
}

namespace lily::cli {

void add_serve(CLI::App& program);
void add_chat(CLI::App& program);
void add_run(CLI::App& program);
void add_info(CLI::App& program);
void add_bench(CLI::App& program);
void add_eval(CLI::App& program);
void add_synth(CLI::App& program);
void add_quantize(CLI::App& program);
void add_tokenize(CLI::App& program);
void add_render(CLI::App& program);
void add_parse(CLI::App& program);

}  // namespace lily::cli
