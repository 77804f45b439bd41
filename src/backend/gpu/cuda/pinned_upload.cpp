// Uploads through page-locked memory.
#include "backend/gpu/cuda/pinned_upload.hpp"

namespace lily::gpu::cuda {

PinnedUpload::PinnedUpload(const Gpu& gpu, int threads)
    : gpu_(gpu), stream_(new_stream()), workers_(static_cast<std::size_t>(threads)) {
  for (Worker& worker : workers_) {
    for (Slot& slot : worker.slots) slot.copied = new_event(false);
  }
}

// Copies may still read the slots when a thread has failed.
PinnedUpload::~PinnedUpload() { static_cast<void>(cudaStreamSynchronize(stream_.get())); }

std::span<std::byte> PinnedUpload::staging(int thread, std::size_t bytes) {
  make_current(gpu_);
  Worker& worker = workers_[static_cast<std::size_t>(thread)];
  worker.current = 1 - worker.current;
  Slot& slot = worker.slots[worker.current];
  check(cudaEventSynchronize(slot.copied.get()), "uploading weights");
  if (slot.capacity < bytes) {
    slot.memory.reset();
    slot.capacity = 0;
    void* address = nullptr;
    check(cudaHostAlloc(&address, bytes, cudaHostAllocPortable), "allocating memory to upload weights");
    slot.memory.reset(static_cast<std::byte*>(address));
    slot.capacity = bytes;
  }
  slot.used = bytes;
  return {slot.memory.get(), bytes};
}

void PinnedUpload::send(int thread, void* to) {
  make_current(gpu_);
  Worker& worker = workers_[static_cast<std::size_t>(thread)];
  Slot& slot = worker.slots[worker.current];
  check(cudaMemcpyAsync(to, slot.memory.get(), slot.used, cudaMemcpyHostToDevice, stream_.get()),
        "uploading weights");
  check(cudaEventRecord(slot.copied.get(), stream_.get()), "uploading weights");
}

void PinnedUpload::finish() { check(cudaStreamSynchronize(stream_.get()), "uploading weights"); }

}  // namespace lily::gpu::cuda
