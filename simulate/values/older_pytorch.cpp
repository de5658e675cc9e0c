#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "simulate/values/functions.h"

namespace devtrace::simulate::values {
namespace {

// c10's types as the calling convention has them in 2.4 to 2.8, whose headers agree. Nothing of PyTorch is compiled in:
// one library serves all of them.
struct OptionalKey {
  uint16_t key;
  bool has;
};
struct OptionalSignature {
  const void* type;
  bool has;
};
struct KernelFunction {  // the first member of what getKernelForDispatchKey() points at
  void* functor;         // an intrusive_ptr: behind its vtable stands how many hold it
  void *boxed, *unboxed, *symbolic;
};
struct OperatorHandle {
  void* entry = nullptr;  // OperatorDef, whose first member is the OperatorEntry
  void* place = nullptr;
  ~OperatorHandle() {}  // as there: not returned in registers
};

// What PyTorch takes and destroys: a std::string of either ABI. It has a text that is long enough not to be its shared
// empty one and short enough to need no memory in the newer.
class DebugText {
 public:
  explicit DebugText(bool copy_on_write) {
    if (!copy_on_write) {
      new (&text_) std::string(kText);
      return;
    }
    // As libstdc++ before GCC 5: length, capacity, how many more hold it; then the text.
    struct Representation {
      size_t length, capacity;
      size_t more;
      char text[sizeof kText];
    };
    auto* made = static_cast<Representation*>(std::malloc(sizeof(Representation)));
    *made = {sizeof kText - 1, sizeof kText - 1, 0, {}};
    std::memcpy(made->text, kText, sizeof kText);
    char* text = made->text;
    std::memcpy(&text_, &text, sizeof text);
  }
  void* get() { return &text_; }

 private:
  static constexpr char kText[] = "devtrace";
  alignas(std::string) unsigned char text_[sizeof(std::string)];
};

constexpr const char* kRegister =
    "_ZN3c104impl13OperatorEntry14registerKernelERKNS_10DispatcherESt8optionalINS_11DispatchKeyEENS_"
    "14KernelFunctionES5_"
    "INS0_12CppSignatureEESt10unique_ptrINS_14FunctionSchemaESt14default_deleteISC_EE";
constexpr const char* kCopyOnWrite = "Ss";  // up to 2.6, as manylinux2014's compiler
constexpr const char* kString = "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";

struct Functions {
  void* (*dispatcher)() = nullptr;                                             // Dispatcher::realSingleton
  OperatorHandle (*find)(void* self, const char* name, const char* overload);  // Dispatcher::findSchemaOrThrow
  const KernelFunction* (*kernel)(const void* entry, uint16_t key);            // OperatorEntry::getKernelForDispatchKey
  void* (*add)(void* entry, const void* dispatcher, OptionalKey, KernelFunction*, OptionalSignature, void** schema,
               void* debug) = nullptr;  // OperatorEntry::registerKernel
  bool copy_on_write = false;

  Functions() {
    void* library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
    if (!library) return;
    const auto look_up = [&](auto& function, const std::string& name) {
      void* found = dlsym(library, name.c_str());
      std::memcpy(&function, &found, sizeof found);
      return found != nullptr;
    };
    copy_on_write = look_up(add, std::string(kRegister) + kCopyOnWrite);
    const bool all = (copy_on_write || look_up(add, std::string(kRegister) + kString)) &&
                     look_up(find, "_ZN3c1010Dispatcher17findSchemaOrThrowEPKcS2_") &&
                     look_up(kernel, "_ZNK3c104impl13OperatorEntry23getKernelForDispatchKeyENS_11DispatchKeyE") &&
                     look_up(dispatcher, "_ZN3c1010Dispatcher13realSingletonEv");
    if (!all) dispatcher = nullptr;
  }
};

}  // namespace

bool keep_kernel(const char* name, const char* overload, int from, int to) {
  static const Functions functions;
  if (!functions.dispatcher) return false;
  void* dispatcher = functions.dispatcher();
  void* entry = functions.find(dispatcher, name, overload).entry;
  const KernelFunction* kernel = functions.kernel(entry, static_cast<uint16_t>(from));
  if (!kernel) return false;
  KernelFunction copy = *kernel;
  if (copy.functor) ++*reinterpret_cast<std::atomic<uint32_t>*>(static_cast<char*>(copy.functor) + sizeof(void*));
  DebugText debug(functions.copy_on_write);
  void* schema = nullptr;
  functions.add(entry, dispatcher, {static_cast<uint16_t>(to), true}, &copy, {nullptr, false}, &schema, debug.get());
  return true;
}

}  // namespace devtrace::simulate::values
