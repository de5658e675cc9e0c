#include "tracker/preexisting/allocator_snapshot.h"

#include <cstdint>
#include <string>

#include "tracker/base/thread_state.h"
#include "tracker/memory/live_memory.h"
#include "tracker/memory/ownership.h"
#include "tracker/memory/provenance.h"
#include "tracker/python/gil/borrowed_gil.h"
#include "tracker/python/gil/no_collector.h"
#include "tracker/python/python_api.h"

namespace devtrace::preexisting {
namespace {

using python::Api;
using python::Ref;

size_t number(const Api& api, PyObject* dict, const char* key) {
  const long long value = python::integer(api, python::entry(api, dict, key).get(), 0);
  return value > 0 ? static_cast<size_t>(value) : 0;
}

// In a child of a fork the parent's state is left, and asking it would start CUDA where it cannot work.
bool cuda_is_in_use(const Api& api, PyObject* torch_c) {
  const Ref cuda = python::imported_module(api, "torch.cuda");
  const Ref initialized = cuda ? python::attribute(api, cuda.get(), "_initialized") : Ref();
  if (!initialized || !python::is_true(api, initialized.get())) return false;
  const Ref forked = python::call_method(api, torch_c, "_cuda_isInBadFork");
  return forked && !python::is_true(api, forked.get());
}

// The newest PyTorch takes the pool (0, 0: all) and whether to copy the history of allocations, which may be long;
// older ones a pool or None, the oldest nothing.
Ref snapshot(const Api& api) {
  const Ref torch_c = python::imported_module(api, "torch._C");
  if (!torch_c || !cuda_is_in_use(api, torch_c.get())) return {};
  const Ref function = python::attribute(api, torch_c.get(), "_cuda_memorySnapshot");
  if (!function || !python::is_builtin(api, python::type_of(api, function.get()).get())) return {};
  const Ref falsehood = python::call(api, api.PyBool_Type);
  const Ref zero = python::call(api, api.PyLong_Type);
  if (!falsehood || !zero) return {};
  const Ref without_history(api, api.PyTuple_Pack(3, zero.get(), zero.get(), falsehood.get()));
  Ref answer = python::call_with(api, function.get(), without_history.get());
  if (!answer) answer = python::call_with(api, function.get(), api._Py_NoneStruct);
  return answer ? std::move(answer) : python::call(api, function.get());
}

// Newer ones have a dict with the segments and more, the oldest the list itself.
Ref segments_of(const Api& api, PyObject* answer) {
  if (python::shape_of(api, answer) == python::Shape::list) return Ref::borrowed(api, answer);
  Ref segments = python::entry(api, answer, "segments");
  return segments && python::shape_of(api, segments.get()) == python::Shape::list ? std::move(segments) : Ref();
}

// Whose end was told already, though its memory may still be read: it waits for its stream.
bool is_live(const Api& api, PyObject* block) {
  return python::text(api, python::entry(api, block, "state").get()) == "active_allocated";
}

struct Totals {
  size_t tensors = 0, reserved = 0;
};

size_t learn_segment(const Api& api, PyObject* segment, Totals* totals) {
  const long long index = python::integer(api, python::entry(api, segment, "device").get(), -1);
  const size_t size = number(api, segment, "total_size");
  const Ref blocks = python::entry(api, segment, "blocks");
  uintptr_t at = number(api, segment, "address");
  if (index < 0 || index >= memory::ownership::kDevices || at == 0 || !blocks ||
      python::shape_of(api, blocks.get()) != python::Shape::list)
    return 0;
  const Device device = Device::cuda(static_cast<int>(index));
  if (!memory::ownership::extent_at(at)) {
    memory::ownership::Extent extent{at, size, device, MemoryKind::device};
    extent.queried = true;  // it may be gone by now, unseen: CUDA has the last word
    memory::ownership::add(extent);
  }
  totals[index].reserved += size;
  size_t known = 0;
  for (ssize_t i = 0, count = api.PyList_Size(blocks.get()); i < count; ++i) {
    PyObject* const block = api.PyList_GetItem(blocks.get(), i);
    const size_t bytes = number(api, block, "size");
    if (is_live(api, block)) {
      memory::provenance::existed(at, bytes, device);
      totals[index].tensors += bytes;
      ++known;
    }
    at += bytes;  // one after the other, without a gap; only newer versions give each its address
  }
  return known;
}

size_t learn(const Api& api) {
  const python::Gil gil(api);
  const python::NoCollector quiet(api);
  const Ref answer = snapshot(api);
  const Ref segments = answer ? segments_of(api, answer.get()) : Ref();
  if (!segments) return 0;
  Totals totals[memory::ownership::kDevices];
  size_t known = 0;
  for (ssize_t i = 0, count = api.PyList_Size(segments.get()); i < count; ++i)
    known += learn_segment(api, api.PyList_GetItem(segments.get(), i), totals);
  for (int index = 0; index < memory::ownership::kDevices; ++index)
    if (totals[index].reserved > 0)
      memory::live_memory::torch_has({Device::cuda(index), totals[index].tensors, totals[index].reserved});
  return known;
}

}  // namespace

size_t learn_blocks() {
  const Api* const api = python::api();
  if (!api) return 0;
  size_t known = 0;
  memory::provenance::begin_existing();
  python::with_gil(*api, [&] {
    const ReentrancyGuard inside;
    try {
      known = learn(*api);
    } catch (...) {  // out of memory: what was learnt is right
    }
  });
  memory::provenance::end_existing();
  return known;
}

}  // namespace devtrace::preexisting
