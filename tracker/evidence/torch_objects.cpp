#include "tracker/evidence/torch_objects.h"

namespace devtrace::python {

Torch::Torch(const Api& api) : api_(api) {
  torch_ = imported_module(api, "torch");
  const Ref c = imported_module(api, "torch._C");
  const Ref nn = imported_module(api, "torch.nn");
  if (!torch_ || !c || !nn) return;  // not imported, or only half way
  tensor_base_ = attribute(api, c.get(), "TensorBase");
  if (!tensor_base_) tensor_base_ = attribute(api, c.get(), "_TensorBase");  // before 2.1
  parameter_ = attribute(api, nn.get(), "Parameter");
  module_ = attribute(api, nn.get(), "Module");
  plain_dispatch_ = attribute(api, attribute(api, torch_.get(), "Tensor").get(), "__torch_dispatch__");
  data_address_ = attribute(api, c.get(), "_data_address");
  guard_ = call(api, attribute(api, c.get(), "DisableTorchFunction").get());
  if (guard_) call_method(api, guard_.get(), "__enter__");
}

Torch::~Torch() {
  if (guard_) call_method(api_, guard_.get(), "__exit__");
}

bool Torch::is_instance(PyObject* object, const Ref& type) const {
  return type && api_.PyType_IsSubtype(type_of(api_, object).get(), type.get());
}
bool Torch::is_tensor(PyObject* object) const {
  return is_instance(object, tensor_base_);
}
bool Torch::is_module(PyObject* object) const {
  return is_instance(object, module_);
}

bool Torch::is_opaque(PyObject* tensor) const {
  const Ref dispatch = attribute(api_, type_of(api_, tensor).get(), "__torch_dispatch__");
  return dispatch.get() != plain_dispatch_.get();
}

Ref Torch::get(PyObject* tensor, const char* name) const {
  const Ref descriptor = attribute(api_, tensor_base_.get(), name);
  return call_with(api_, attribute(api_, descriptor.get(), "__get__").get(), tensor);
}

Ref Torch::invoke(PyObject* tensor, const char* method) const {
  return call_with(api_, attribute(api_, tensor_base_.get(), method).get(), tensor);
}

TensorPlacement Torch::placement(PyObject* tensor) const {
  const long long elements = integer(api_, invoke(tensor, "numel").get(), 0);
  const long long item = integer(api_, invoke(tensor, "element_size").get(), 0);
  return {as_text(api_, get(tensor, "device").get()), elements * item};
}

TensorFacts Torch::facts(PyObject* tensor) const {
  TensorFacts facts;
  facts.object = tensor;
  facts.device = as_text(api_, get(tensor, "device").get());
  facts.dtype = as_text(api_, get(tensor, "dtype").get());
  if (facts.dtype.starts_with("torch.")) facts.dtype.erase(0, 6);
  int64_t elements = 1;
  const Ref shape = get(tensor, "shape");
  for (ssize_t i = 0, n = shape ? api_.PySequence_Size(shape.get()) : 0; i < n; ++i) {
    facts.shape.push_back(integer(api_, Ref(api_, api_.PySequence_GetItem(shape.get(), i)).get(), -1));
    elements *= facts.shape.back();
  }
  const long long item = integer(api_, invoke(tensor, "element_size").get(), 0);
  facts.bytes = elements * item;
  const auto offset = static_cast<uintptr_t>(integer(api_, invoke(tensor, "storage_offset").get(), 0) * item);
  if (data_address_) {
    // Of the storage, and without copying one that is shared until written to (data_ptr() would).
    facts.storage = static_cast<uintptr_t>(integer(api_, call_with(api_, data_address_.get(), tensor).get(), 0));
    if (facts.storage != 0) facts.address = facts.storage + offset;
  } else {
    facts.address = static_cast<uintptr_t>(integer(api_, invoke(tensor, "data_ptr").get(), 0));
    if (facts.address != 0) facts.storage = facts.address - offset;
  }
  const Ref grad = get(tensor, "requires_grad");
  facts.requires_grad = grad && api_.PyObject_IsTrue(grad.get()) == 1;
  facts.is_parameter = is_instance(tensor, parameter_);
  return facts;
}

std::string Torch::version() const {
  return as_text(api_, attribute(api_, torch_.get(), "__version__").get());
}

Ref module_table(const Api& api, PyObject* module, const ModuleTable& table) {
  const Ref dict = instance_dict(api, module);
  return dict ? Ref::borrowed(api, api.PyDict_GetItemString(dict.get(), table.name)) : Ref();
}

bool for_each_state_tensor(const Api& api, const Torch& torch, PyObject* module, const VisitTensor& visit) {
  for (const ModuleTable& table : kStateTables) {
    const Ref dict = module_table(api, module, table);
    ssize_t position = 0;
    PyObject *key = nullptr, *value = nullptr;
    while (dict && api.PyDict_Next(dict.get(), &position, &key, &value))
      if (torch.is_tensor(value) && !visit(value, text(api, key), table.role)) return false;
  }
  return true;
}

}  // namespace devtrace::python
