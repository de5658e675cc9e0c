// Tensors and modules as evidence reads them: metadata only, never values, unseen by torch-function and dispatch modes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tracker/evidence/objects/class_memory.h"
#include "tracker/evidence/objects/module_tables.h"
#include "tracker/python/python_api.h"

namespace devtrace::evidence {

struct TensorFacts {
  PyObject* object = nullptr;  // borrowed: alive as long as the frames are
  std::string device;          // "cpu", "cuda:1", "meta"
  std::string dtype;           // "float32"
  std::vector<int64_t> shape;
  int64_t bytes = 0;      // elements times their size
  uintptr_t address = 0;  // of its first element; 0 when it has no memory of its own (meta, sparse, wrapper subclasses)
  uintptr_t storage = 0;  // where its storage begins; of a sparse tensor its values'
  bool requires_grad = false;
  bool is_parameter = false;
};

// The name of an object's class.
inline std::string class_of(const python::Api& api, PyObject* object) {
  return python::type_name(api, python::type_of(api, object).get());
}

// Is it of the class of that name, or of one derived from it?
bool is_of_class(const python::Api& api, PyObject* object, const std::string& type);

// What is asked of very many tensors at once.
struct TensorPlacement {
  std::string device;
  int64_t bytes = 0;
};

// torch as the process has imported it. Lives under one Gil; while it lives, __torch_function__ is off for this thread.
class Torch {
 public:
  explicit Torch(const python::Api& api);
  ~Torch();
  Torch(const Torch&) = delete;
  Torch& operator=(const Torch&) = delete;

  bool usable() const { return tensor_base_ && module_ && plain_dispatch_; }
  bool imported() const { return static_cast<bool>(tensor_base_); }
  bool is_tensor(PyObject* object) const;
  bool is_module(PyObject* object) const;
  bool is_generator(PyObject* object) const;
  std::string device_of_generator(PyObject* generator) const;
  // A tensor whose class handles dispatch itself (FakeTensor, DTensor): reading it could run Python code, so it is left
  // alone.
  bool is_opaque(PyObject* tensor) const;
  // Where a FakeTensor pretends to lie; empty for every other tensor.
  std::string fake_device(PyObject* tensor) const;
  TensorFacts facts(PyObject* tensor) const;
  TensorPlacement placement(PyObject* tensor) const;
  // Where its storage begins, of a sparse tensor (COO) its values'; 0: it has no memory of its own.
  uintptr_t storage(PyObject* tensor) const;
  // What has come of a backward pass for it; None where nothing has.
  python::Ref gradient(PyObject* parameter) const { return get(parameter, "grad"); }
  // The node of autograd's graph that made it, and the hooks that its gradient passes; empty or None where it has none.
  python::Ref grad_fn(PyObject* tensor) const { return get(tensor, "grad_fn"); }
  python::Ref gradient_hooks(PyObject* tensor) const { return get(tensor, "_backward_hooks"); }
  std::string version() const;
  PyObject* module_class() const { return module_.get(); }
  PyObject* tensor_class() const { return tensor_base_.get(); }

 private:
  uintptr_t own_storage(PyObject* tensor) const;
  // An attribute or method of a tensor through the base class's own descriptor, whatever a subclass overrides.
  python::Ref get(PyObject* tensor, const char* name) const;
  python::Ref invoke(PyObject* tensor, const char* method) const;
  bool is_a(PyObject* object, const python::Ref& type) const;
  enum class Kind { tensor, module, other };
  Kind kind_of(PyObject* object) const;

  const python::Api& api_;
  python::Ref torch_;
  python::Ref tensor_base_;
  python::Ref tensor_;
  python::Ref parameter_;
  python::Ref module_;
  python::Ref generator_;
  python::Ref plain_dispatch_;  // Tensor.__torch_dispatch__
  python::Ref data_address_;    // reads an address without materializing a lazily copied tensor
  python::Ref dispatch_modes_;  // how many TorchDispatchModes are active
  python::Ref guard_;
  mutable ClassMemory<Kind> kinds_;
};

// One of a module's tables, without nn.Module.__getattr__; empty when it has none.
python::Ref module_table(const python::Api& api, PyObject* module, const ModuleTable& table);

// Calls visit(tensor, its name in the module, its role) for each parameter and buffer that the module itself has, until
// one says false; whether none did.
using VisitTensor = std::function<bool(PyObject* tensor, const std::string& name, const char* role)>;
bool for_each_state_tensor(const python::Api& api, const Torch& torch, PyObject* module, const VisitTensor& visit);

}  // namespace devtrace::evidence
