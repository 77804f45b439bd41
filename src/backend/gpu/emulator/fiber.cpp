// Fibers: the switch itself, and what it tells the sanitizers.
#include "backend/gpu/emulator/fiber.hpp"

#include <array>
#include <cstdint>
#include <cstring>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LILY_ADDRESS_SANITIZER 1
#endif
#if __has_feature(thread_sanitizer)
#define LILY_THREAD_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define LILY_ADDRESS_SANITIZER 1
#endif
#if defined(__SANITIZE_THREAD__)
#define LILY_THREAD_SANITIZER 1
#endif
#if defined(LILY_ADDRESS_SANITIZER)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(LILY_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

#if !LILY_FIBERS_BY_UCONTEXT
// Saves the registers that a call preserves on the stack, stores the stack pointer in *from, and takes up the
// registers that lie at `to`.
extern "C" void lily_switch_stack(void** from, void* to);
#if defined(__APPLE__)
#define LILY_SYMBOL "_lily_switch_stack"
#else
#define LILY_SYMBOL "lily_switch_stack"
#endif
#if defined(__x86_64__)
asm(".text\n.globl " LILY_SYMBOL "\n" LILY_SYMBOL
    ":\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n");
#else
asm(".text\n.globl " LILY_SYMBOL "\n" LILY_SYMBOL
    ":\n"
    "  sub sp, sp, #160\n"
    "  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
    "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
    "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n"
    "  stp d14, d15, [sp, #144]\n"
    "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
    "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
    "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
    "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n  ldp d12, d13, [sp, #128]\n"
    "  ldp d14, d15, [sp, #144]\n"
    "  add sp, sp, #160\n"
    "  ret\n");
#endif
#endif

namespace lily::gpu::emulator {

// NOLINTNEXTLINE(modernize-use-equals-default): empty only without the thread sanitizer
Fiber::~Fiber() {
#if defined(LILY_THREAD_SANITIZER)
  if (owns_thread_fiber_) __tsan_destroy_fiber(thread_fiber_);
#endif
}

void Fiber::prepare(std::byte* stack, std::size_t bytes, void (*entry)()) {
  stack_ = stack;
  stack_bytes_ = bytes;
  clean_stacks(stack, bytes);
#if defined(LILY_THREAD_SANITIZER)
  if (owns_thread_fiber_) __tsan_destroy_fiber(thread_fiber_);
  thread_fiber_ = __tsan_create_fiber(0);
  owns_thread_fiber_ = true;
#endif
#if LILY_FIBERS_BY_UCONTEXT
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack;
  context_.uc_stack.ss_size = bytes;
  context_.uc_link = nullptr;
  makecontext(&context_, entry, 0);
#elif defined(__x86_64__)
  // Six registers, the return address, and a null above it: a call would leave the stack 8 bytes off 16.
  std::array<std::uintptr_t, 8> frame{};
  frame[6] = reinterpret_cast<std::uintptr_t>(entry);
  std::byte* top = stack + bytes - sizeof frame;
  std::memcpy(top, frame.data(), sizeof frame);
  stack_pointer_ = top;
#else
  std::array<std::uintptr_t, 20> frame{};
  frame[11] = reinterpret_cast<std::uintptr_t>(entry);  // x30, the return address
  std::byte* top = stack + bytes - sizeof frame;
  std::memcpy(top, frame.data(), sizeof frame);
  stack_pointer_ = top;
#endif
}

void Fiber::switch_to(Fiber& next, [[maybe_unused]] bool for_good) {
#if defined(LILY_ADDRESS_SANITIZER)
  __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack_, next.stack_, next.stack_bytes_);
#endif
#if defined(LILY_THREAD_SANITIZER)
  __tsan_switch_to_fiber(next.thread_fiber_, 0);
#endif
#if LILY_FIBERS_BY_UCONTEXT
  swapcontext(&context_, &next.context_);
#else
  lily_switch_stack(&stack_pointer_, next.stack_pointer_);
#endif
#if defined(LILY_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(fake_stack_, nullptr, nullptr);
#endif
}

void Fiber::entered([[maybe_unused]] Fiber& from) {
#if defined(LILY_ADDRESS_SANITIZER)
  __sanitizer_finish_switch_fiber(nullptr, &from.stack_, &from.stack_bytes_);
#endif
}

void Fiber::clean_stacks([[maybe_unused]] std::byte* memory, [[maybe_unused]] std::size_t bytes) {
#if defined(LILY_ADDRESS_SANITIZER)
  __asan_unpoison_memory_region(memory, bytes);
#endif
}

void Fiber::adopt_thread() {
#if defined(LILY_THREAD_SANITIZER)
  thread_fiber_ = __tsan_get_current_fiber();
#endif
}

}  // namespace lily::gpu::emulator
