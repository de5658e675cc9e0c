// Stream memory operations: a stream writes a word, or waits until one has a value. With them, streams and processes
// wait for one another without events.
#include <atomic>
#include <thread>
#include <vector>

#include "simulate/cuda/api.h"
#include "simulate/model/memory/memory.h"
#include "simulate/model/stream.h"

namespace {

// One word: 32 bits wide, or 64.
struct Word {
  CUdeviceptr address;
  uint64_t value;
  unsigned flags;
  bool wide, wait;
};

template <typename T>
bool reached(const Word& w) {
  const T now = std::atomic_ref<T>(*reinterpret_cast<T*>(w.address)).load(std::memory_order_acquire);
  const T value = static_cast<T>(w.value);
  switch (w.flags & 3) {
    case CU_STREAM_WAIT_VALUE_EQ:
      return now == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return now & value;
    case CU_STREAM_WAIT_VALUE_NOR:
      return static_cast<T>(~(now | value)) != 0;
    default:  // greater or equal, as a cyclic counter
      return static_cast<std::make_signed_t<T>>(now - value) >= 0;
  }
}

template <typename T>
void run(const Word& w) {
  if (!w.wait)
    std::atomic_ref<T>(*reinterpret_cast<T*>(w.address)).store(static_cast<T>(w.value), std::memory_order_release);
  while (w.wait && !reached<T>(w)) std::this_thread::yield();
}

void run_all(void* data) {
  auto* words = static_cast<std::vector<Word>*>(data);
  for (const Word& w : *words) w.wide ? run<uint64_t>(w) : run<uint32_t>(w);
  delete words;
}

CUresult check(const Word& w) {
  simulate::Allocation a;
  return w.address % (w.wide ? 8 : 4) || !simulate::find_memory(w.address, &a) ? CUDA_ERROR_INVALID_VALUE
                                                                               : CUDA_SUCCESS;
}

CUresult enqueue(CUstream handle, std::vector<Word> words) {
  CUstream stream;
  TRY(simulate::resolve(handle, &stream));
  REQUIRE_CONTEXT(context);
  for (const Word& w : words) TRY(check(w));
  // A captured one would have to be run again at each launch of its graph: not modelled.
  if (stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  simulate::Operation operation;
  operation.type = CU_GRAPH_NODE_TYPE_HOST;  // waits in the stream's thread, like a host function
  operation.host = {run_all, new std::vector<Word>(std::move(words))};
  return simulate::submit(stream, std::move(operation));
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags) {
  return enqueue(stream, {{address, value, flags, false, false}});
}
CUresult CUDAAPI cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags) {
  return enqueue(stream, {{address, value, flags, true, false}});
}
CUresult CUDAAPI cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags) {
  return enqueue(stream, {{address, value, flags, false, true}});
}
CUresult CUDAAPI cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags) {
  return enqueue(stream, {{address, value, flags, true, true}});
}
CUresult CUDAAPI cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* operations,
                                    unsigned int) {
  if (count && !operations) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Word> words;
  for (unsigned i = 0; i < count; ++i) {
    const CUstreamBatchMemOpParams& p = operations[i];
    switch (p.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        words.push_back({p.waitValue.address, p.waitValue.value, p.waitValue.flags, false, true});
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        words.push_back({p.waitValue.address, p.waitValue.value64, p.waitValue.flags, true, true});
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        words.push_back({p.writeValue.address, p.writeValue.value, p.writeValue.flags, false, false});
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        words.push_back({p.writeValue.address, p.writeValue.value64, p.writeValue.flags, true, false});
        break;
      case CU_STREAM_MEM_OP_BARRIER:
      case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        break;  // memory is the host's own: always flushed
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return enqueue(stream, std::move(words));
}

}  // extern "C"
