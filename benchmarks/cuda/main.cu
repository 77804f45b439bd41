// Speed of the kernels that Hopper has bodies of its own for, beside the dialect's; each is checked first.
// Arguments: parts to run: multiply, experts, attention, long, decode, delta; none: all of these. Only when
// asked for: `profile`, 4,096 tokens of each for ncu, and `small` for compute-sanitizer.
#include <cstring>

#include "harness.cuh"

int main(int argc, char** argv) {
  using namespace bench;
  seed() = ulong(time(nullptr)) * 1000003ull;
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "device");
  std::printf("%s, %d multiprocessors, seed %lu\n", properties.name, properties.multiProcessorCount, seed());
  const auto asked = [&](const char* part) {
    for (int i = 1; i < argc; ++i)
      if (std::strcmp(argv[i], part) == 0) return true;
    return false;
  };
  const auto wanted = [&](const char* part) { return argc == 1 || asked(part); };
  if (wanted("multiply"))
    for (const uint tokens : {77u, 512u, 4096u, 16384u}) multiply(tokens);
  if (wanted("experts")) {
    for (const uint tokens : {77u, 512u, 4096u, 16384u}) experts(tokens, false);
    experts(4096, true);
  }
  if (wanted("attention")) {
    attention(333, 0);
    attention(512, 0);
    attention(4096, 0);
    attention(1000, 3333);
    attention(4096, 28672);
  }
  if (wanted("long")) attention(4096, 126976);
  if (wanted("decode"))
    for (const uint position : {511u, 4095u, 32767u, 131071u})
      for (const bool codes : {false, true}) attention_decode(position, codes);
  if (wanted("delta"))
    for (const uint tokens : {200u, 512u, 4096u}) delta(tokens);
  if (asked("profile")) {
    multiply(4096);
    experts(4096, false);
    attention(4096, 0);
    for (const bool codes : {false, true}) attention_decode(131071, codes);
    delta(4096);
  }
  if (asked("small")) {
    multiply(77);
    experts(77, true);
    attention(100, 50);
    for (const bool codes : {false, true}) attention_decode(99, codes);
    delta(200);
  }
  std::puts(failed() ? "SOME RESULTS ARE WRONG" : "all right");
  return failed() ? 1 : 0;
}
