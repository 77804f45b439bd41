// Fibers: several call stacks in one thread, switched by hand.
#pragma once

#include <cstddef>

#if defined(LILY_PORTABLE_FIBERS) || !(defined(__x86_64__) || defined(__aarch64__))
#define LILY_FIBERS_BY_UCONTEXT 1
#include <ucontext.h>
#else
#define LILY_FIBERS_BY_UCONTEXT 0
#endif

namespace lily::gpu::emulator {

// Either a stack of its own with a function on it, or the thread itself. The switch is 25 lines of assembly
// on x86-64 and arm64; the portable one makes system calls and is 63 times slower.
class Fiber {
 public:
  Fiber() = default;
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // The fiber starts `entry` on the stack when it is next switched to. `entry` first calls entered() and
  // never returns. A fiber that was left for good may be prepared again, on the same stack.
  void prepare(std::byte* stack, std::size_t bytes, void (*entry)());

  // Leaves this running fiber for `next`; returns when another one switches back. `for_good`: it never does.
  void switch_to(Fiber& next, bool for_good = false);

  // To be called first on a new stack, with the fiber that switched to it.
  static void entered(Fiber& from);

  // To be called in the thread itself before it switches to a fiber.
  void adopt_thread();

  // To be called before memory that was stacks is used for anything else: a fiber that was left for good did
  // not clean up, and the address sanitizer still knows its frames.
  static void clean_stacks(std::byte* memory, std::size_t bytes);

 private:
#if LILY_FIBERS_BY_UCONTEXT
  ucontext_t context_{};
#else
  void* stack_pointer_ = nullptr;
#endif
  // What the sanitizers want to know of the stack.
  const void* stack_ = nullptr;
  std::size_t stack_bytes_ = 0;
  void* fake_stack_ = nullptr;
  void* thread_fiber_ = nullptr;
  bool owns_thread_fiber_ = false;
};

}  // namespace lily::gpu::emulator
