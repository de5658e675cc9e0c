// Every Python exception as it is made, before it is raised: what Python code refuses, PyTorch's own and a library's.
//
// The hook is set when the interpreter loads torch._C, which looks for its function PyInit__C with the GIL held. In a
// process that has done so already, it is set when devtrace is attached.

#include "interpose/python/exception_hook.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

#include "interpose/linking/lookup_watch.h"
#include "interpose/linking/original.h"
#include "interpose/python/device_errors.h"
#include "interpose/python/exception_types.h"
#include "tracker/base/message.h"
#include "tracker/base/thread_state.h"
#include "tracker/events.h"
#include "tracker/interface/device_words.h"
#include "tracker/python/gil/borrowed_gil.h"
#include "tracker/python/gil/kept_references.h"
#include "tracker/python/layout.h"
#include "tracker/python/objects/object_layout.h"
#include "tracker/python/objects/string_decoder.h"
#include "tracker/python/python_api.h"
#include "tracker/python/version.h"
#include "tracker/session.h"

namespace devtrace::interpose {
namespace {

constinit const python::Api* python_api = nullptr;
constinit const python::Layout* layout_here = nullptr;
constinit uint16_t extra_header = 0;

// What every exception asks for, in one line of the processor's cache; the rest it asks for is known when this is
// compiled. The slots of kinds as python::Layout has them.
struct alignas(64) Known {
  MakeException original;
  const PyObject* str = nullptr;
  const PyObject* attribute_error = nullptr;
  uint32_t compact_ascii = 0;  // the bits of a str's state that say it
  uint16_t ascii_payload = 0, tuple_items = 0;
};
constinit Known known;

constexpr uint64_t kUnicodeFlag = 1u << 28;  // of a class: what it is below of
constexpr ssize_t kMostArguments = 4;        // that are looked at
constexpr auto kFewestOfDeviceError = static_cast<ssize_t>(kFewestArguments);
static_assert(kFewestOfDeviceError > 1, "is_ordinary() takes a single argument that is no text for ordinary");

template <class Value>
Value value_at(const void* object, size_t offset) {
  return *reinterpret_cast<const Value*>(static_cast<const char*>(object) + offset);
}
template <class Value>
Value field(const void* object, uint16_t offset) {
  return value_at<Value>(object, offset + extra_header);
}

// Laid out in the object itself, one byte each.
bool is_compact_ascii(const void* text) {
  return (field<uint32_t>(text, python::kStrState) & known.compact_ascii) == known.compact_ascii;
}

// What is no ASCII of its own is decoded into `buffer`. CPython would keep the UTF-8 in the object, and raises where
// the text has a lone surrogate, which would be an exception to look at, and so without end.
class Text {
 public:
  explicit Text(PyObject* object) {
    const auto* type = field<const void*>(object, python::kObjectType);
    if (!(field<uint64_t>(type, python::kTypeFlags) & kUnicodeFlag)) return;
    const auto length = field<ssize_t>(object, python::kStrLength);
    if (length < static_cast<ssize_t>(kShortestDeviceError)) return;
    if (is_compact_ascii(object))
      text_ = {reinterpret_cast<const char*>(object) + known.ascii_payload, static_cast<size_t>(length)};
    else
      text_ = {buffer_, python::read_str(*layout_here, object, buffer_, sizeof buffer_)};
  }
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  std::string_view view() const { return text_; }

 private:
  char buffer_[2048];  // texts about devices are shorter, and the thread's stack may be a small one
  std::string_view text_;
};

[[gnu::noinline]] void on_exception(std::string_view message) noexcept {
  if (thread_state::inside() || !python::holds_gil(*python_api)) return;  // another interpreter's is not looked at
  events::Refused refusal;
  refusal.raised = events::Raised::in_python;
  refusal.message = message;
  events::refused(refusal);
}

// Its class says in its __init__ what the arguments come to: after this.
[[gnu::noinline]] void on_device_error(const char* name, PyObject* const* arguments) noexcept try {
  if (thread_state::inside() || !python::holds_gil(*python_api)) return;
  std::optional<DeviceError> error;
  {
    python::KeptReferences kept;
    kept.use(*python_api);
    const ReentrancyGuard inside;
    const python::Gil gil(*python_api);
    error = device_error(*python_api, name, arguments);
  }
  if (!error) return;
  events::Refused refusal;
  refusal.raised = events::Raised::in_python;
  refusal.message = error->message;
  refusal.operation = error->operation;
  refusal.at = error->at;
  refusal.wanted = error->wanted;
  events::refused(refusal);
} catch (...) {  // out of memory
}

// The exception's own class may have more arguments than the text.
void look_at(PyObject* type, PyObject* const* arguments, ssize_t count) noexcept {
  for (ssize_t i = 0; i < count && i < kMostArguments; ++i) {
    if (!arguments[i]) continue;
    const Text text(arguments[i]);
    if (speaks_of_devices(text.view())) return on_exception(text.view());
  }
  if (count < kFewestOfDeviceError) return;
  if (const char* const name = field<const char*>(type, python::kTypeName);
      name && may_be_device_error(name, static_cast<size_t>(count)))
    on_device_error(name, arguments);
}

PyObject* const* items_of(PyObject* arguments) {
  return reinterpret_cast<PyObject* const*>(reinterpret_cast<const char*>(arguments) + known.tuple_items);
}

// tp_vectorcall: the count's highest bit says that the caller lends a place in front of the arguments.
constexpr ssize_t count_of(size_t count) {
  constexpr size_t kPlaceInFront = size_t{1} << 63;
  return static_cast<ssize_t>(count & ~kPlaceInFront);
}

// In the place of type.__call__: every class is called by it.
[[gnu::noinline]] PyObject* new_exception(PyObject* type, PyObject* arguments, PyObject* keywords) {
  if (arguments && field<uint64_t>(type, python::kTypeFlags) & python::kExceptionFlag)
    look_at(type, items_of(arguments), field<ssize_t>(arguments, python::kVarSize));
  return known.original.with_tuple(type, arguments, keywords);
}

// In the place of BaseException's tp_vectorcall.
[[gnu::noinline]] PyObject* new_exception_of_array(PyObject* type, PyObject* const* arguments, size_t count,
                                                   PyObject* keywords) {
  look_at(type, arguments, count_of(count));
  return known.original.with_array(type, arguments, count, keywords);
}

#ifdef __x86_64__
// Texts that were found ordinary and stay what they are, constants of the program's: by address, and by the hash that
// Python has taken of them. What is made anew for each exception has none yet.
struct Ordinary {
  std::atomic<const PyObject*> text{nullptr};
  std::atomic<intptr_t> hash{0};
};
constexpr size_t kMostOrdinary = 64;
constinit Ordinary ordinary[kMostOrdinary];
constexpr intptr_t kNoHash = -1;

// Hot: the usual exception has no argument, one that is no text, or a short text. A longer one is ASCII, lies in the
// object itself, and is without a pair of a device word's letters. Or it is Python's own "'Net' object has no attribute
// 'device'", which a running program makes most often. For Pythons whose objects have the usual header.
[[gnu::target("avx"), gnu::always_inline]] inline bool is_ordinary(const PyObject* type, PyObject* const* arguments,
                                                                   ssize_t count) {
  if (count != 1) [[unlikely]]
    return count == 0;
  PyObject* const only = *arguments;
  if (const auto* given = value_at<PyObject*>(only, python::kObjectType); given != known.str) [[unlikely]]
    return !(value_at<uint64_t>(given, python::kTypeFlags) & kUnicodeFlag);
  const auto length = static_cast<size_t>(value_at<ssize_t>(only, python::kStrLength));
  if (length < kShortestDeviceError) return true;
  if ((value_at<uint32_t>(only, python::kStrState) & known.compact_ascii) != known.compact_ascii) [[unlikely]]
    return false;
  const char* const text = reinterpret_cast<const char*>(only) + known.ascii_payload;
  if (type == known.attribute_error && *text == '\'') return true;
  const auto hash = value_at<intptr_t>(only, python::kStrHash);
  Ordinary& same = ordinary[reinterpret_cast<uintptr_t>(only) / 64 % kMostOrdinary];
  const bool stays = hash != kNoHash;
  if (stays && same.text.load(std::memory_order_relaxed) == only && same.hash.load(std::memory_order_relaxed) == hash)
    return true;
  if (device_words::has_pair(text, length)) [[unlikely]]
    return false;
  if (stays) {
    same.text.store(only, std::memory_order_relaxed);
    same.hash.store(hash, std::memory_order_relaxed);
  }
  return true;
}

// The same two where most exceptions are passed on at once. Each in a line of the processor's cache of its own, without
// a frame: jumps that crowd together cost as much as the whole look.
[[gnu::target("avx"), gnu::aligned(64)]] PyObject* quick_new_exception(PyObject* type, PyObject* arguments,
                                                                       PyObject* keywords) {
  if (value_at<uint64_t>(type, python::kTypeFlags) & python::kExceptionFlag) [[unlikely]]
    if (!arguments || !is_ordinary(type, items_of(arguments), value_at<ssize_t>(arguments, python::kVarSize)))
      return new_exception(type, arguments, keywords);
  return known.original.with_tuple(type, arguments, keywords);
}
[[gnu::target("avx"), gnu::aligned(64)]] PyObject* quick_new_exception_of_array(PyObject* type,
                                                                                PyObject* const* arguments,
                                                                                size_t count, PyObject* keywords) {
  if (!is_ordinary(type, arguments, count_of(count))) [[unlikely]]
    return new_exception_of_array(type, arguments, count, keywords);
  return known.original.with_array(type, arguments, count, keywords);
}
#endif

const MakeException& hooks() {
  static constexpr MakeException kAny{new_exception, new_exception_of_array};
#ifdef __x86_64__
  static constexpr MakeException kQuick{quick_new_exception, quick_new_exception_of_array};
  if (__builtin_cpu_supports("avx") && extra_header == 0) return kQuick;
#endif
  return kAny;
}

// Under the GIL.
void set_hook(const python::Api& api) {
  const python::Version version = python::version_of(api.Py_GetVersion());
  const python::Layout* const layout = python::layout_of(version.minor, version.free_threaded);
  const python::ObjectLayout* const objects = layout ? python::object_layout_of(*layout) : nullptr;
  python_api = &api;
  if (objects) {
    layout_here = layout;
    extra_header = layout->extra_header;
    known.str = api.PyUnicode_Type;
    known.attribute_error =
        python::attribute(api, python::imported_module(api, "builtins").get(), "AttributeError").get();
    known.compact_ascii = 0x18u << layout->str_kind;
    known.ascii_payload = layout->ascii_payload;
    known.tuple_items = objects->tuple_items;
  }
  if ((!objects || !replace_making_of_exceptions(api, *layout, hooks(), known.original)) && verbose())
    explain("Python's exceptions are not looked at: not known in version %s", api.Py_GetVersion());
}

bool has_pytorch() {
  return find_in_library("libtorch_python.so", "THPVariableClass");
}

// Another module of that name is asked for as well; PyTorch's own brings its library along.
void on_module_lookup() {
  if (python_api || thread_state::inside() || !has_pytorch()) return;
  const ReentrancyGuard inside;
  session::pytorch_loaded();
  const python::Api* api = python::api();
  if (!api || !python::holds_gil(*api)) return;
  const python::Gil gil(*api);
  set_hook(*api);
}

[[gnu::constructor]] void watch() {
  watch_lookup({"PyInit__C", on_module_lookup});
}

}  // namespace

bool hook_exceptions() {
  const python::Api* const api = has_pytorch() ? python::api() : nullptr;
  return !api || python::with_gil(*api, [&] { set_hook(*api); });
}

void unhook_exceptions() {
  const python::Api* const api = known.original.with_tuple ? python_api : nullptr;
  if (api) python::with_gil(*api, [&] { restore_making_of_exceptions(*api, *layout_here, hooks(), known.original); });
}

}  // namespace devtrace::interpose
