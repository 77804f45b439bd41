// How a kernel is measured: registered once per instruction set and thread count of this machine, its rate
// printed beside the limit that bounds it.
#pragma once

#include <functional>
#include <string>

#include "backend/cpu/kernels.hpp"
#include "base/thread_pool.hpp"

namespace lily::benchmarks {

// What bounds a kernel, measured in the same run, with the same instruction set and threads.
enum class Limit {
  memory,   // reading memory, GB/s
  cache,    // reading 32 KiB again and again, GB/s
  integer,  // integer dot products, GOP/s
  fp32,     // fp32 multiply-adds, GOP/s
};

struct Machine {
  const cpu::Kernels& kernels;
  ThreadPool& pool;
};

// One call is measured; it must take well over the microsecond that starting a parallel loop may cost.
using Call = std::function<void()>;

// Prepares what a call needs; runs only when the benchmark is selected. An empty call where the instruction
// set has no such kernel.
using Prepare = std::function<Call(const Machine&)>;

// `amount` is bytes moved (memory, cache) or operations (integer, fp32) of one call, given the threads.
void add(const std::string& name, Limit limit, const std::function<double(int threads)>& amount,
         const Prepare& prepare);
void add(const std::string& name, Limit limit, double amount, const Prepare& prepare);

// The groups of benchmarks, one file each.
void add_matrix_benchmarks();
void add_sequence_benchmarks();
void add_elementwise_benchmarks();

}  // namespace lily::benchmarks
