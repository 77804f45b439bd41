// Anonymous mappings aligned to huge pages.
#include "base/huge_buffer.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdint>

#include "lily/error.hpp"

namespace lily {

namespace {
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t round_up(std::size_t value, std::size_t step) {
  return (value + step - 1) / step * step;
}
}  // namespace

HugeBuffer::HugeBuffer(std::size_t bytes, const char* what) {
  if (bytes == 0) return;
  const bool huge = bytes >= kHugePage;
  const std::size_t size = round_up(bytes, huge ? kHugePage : 4096);
  // Map one huge page more, then give back what lies outside the aligned part.
  const std::size_t mapped = huge ? size + kHugePage : size;
  void* raw = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) {
    throw Error(ErrorKind::out_of_memory, fmt::format("cannot reserve {:.1f} MiB for {}",
                                                      static_cast<double>(bytes) / (1 << 20), what));
  }
  auto begin = reinterpret_cast<std::uintptr_t>(raw);
  if (huge) {
    const std::uintptr_t aligned = round_up(begin, kHugePage);
    if (aligned != begin) munmap(raw, aligned - begin);
    const std::uintptr_t end = begin + mapped;
    if (aligned + size != end) munmap(reinterpret_cast<void*>(aligned + size), end - aligned - size);
    begin = aligned;
#if defined(MADV_HUGEPAGE)
    madvise(reinterpret_cast<void*>(begin), size, MADV_HUGEPAGE);  // a hint: refusal only costs speed
#endif
  }
  data_ = reinterpret_cast<std::byte*>(begin);
  bytes_ = size;
}

void HugeBuffer::populate(std::size_t offset, std::size_t length) const noexcept {
#if defined(MADV_POPULATE_WRITE)
  madvise(data_ + offset, length, MADV_POPULATE_WRITE);  // a hint: who writes takes what is not there
#else
  static_cast<void>(offset);
  static_cast<void>(length);
#endif
}

HugeBuffer::~HugeBuffer() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace lily
