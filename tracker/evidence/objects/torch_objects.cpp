#include "tracker/evidence/objects/torch_objects.h"

#include "tracker/python/gil/dict_entries.h"

namespace devtrace::evidence {

Torch::Torch(const python::Api& api) : api_(api), kinds_(api) {
  torch_ = python::imported_module(api, "torch");
  const python::Ref c = python::imported_module(api, "torch._C");
  const python::Ref nn = python::imported_module(api, "torch.nn");
  if (!torch_ || !c || !nn) return;  // not imported, or only half way
  tensor_base_ = python::attribute(api, c.get(), "TensorBase");
  if (!tensor_base_) tensor_base_ = python::attribute(api, c.get(), "_TensorBase");  // before 2.1
  parameter_ = python::attribute(api, nn.get(), "Parameter");
  module_ = python::attribute(api, nn.get(), "Module");
  tensor_ = python::attribute(api, torch_.get(), "Tensor");
  plain_dispatch_ = python::attribute(api, tensor_.get(), "__torch_dispatch__");
  generator_ = python::attribute(api, c.get(), "Generator");
  data_address_ = python::attribute(api, c.get(), "_data_address");
  dispatch_modes_ = python::attribute(api, c.get(), "_len_torch_dispatch_stack");
  guard_ = python::call(api, python::attribute(api, c.get(), "DisableTorchFunction").get());
  if (guard_) python::call_method(api, guard_.get(), "__enter__");
}

Torch::~Torch() {
  if (guard_) python::call_method(api_, guard_.get(), "__exit__");
}

bool Torch::is_a(PyObject* object, const python::Ref& type) const {
  return type && api_.PyType_IsSubtype(python::type_of(api_, object).get(), type.get());
}

Torch::Kind Torch::kind_of(PyObject* object) const {
  return kinds_.of(object, [&](PyObject* type) {
    if (tensor_base_ && api_.PyType_IsSubtype(type, tensor_base_.get())) return Kind::tensor;
    return module_ && api_.PyType_IsSubtype(type, module_.get()) ? Kind::module : Kind::other;
  });
}
bool Torch::is_tensor(PyObject* object) const {
  return kind_of(object) == Kind::tensor;
}
bool Torch::is_module(PyObject* object) const {
  return kind_of(object) == Kind::module;
}

bool Torch::is_generator(PyObject* object) const {
  return is_a(object, generator_);
}

// By the base class's own descriptor, as a tensor's attributes are.
std::string Torch::device_of_generator(PyObject* generator) const {
  const python::Ref descriptor = python::attribute(api_, generator_.get(), "device");
  return python::as_text(
      api_, python::call_with(api_, python::attribute(api_, descriptor.get(), "__get__").get(), generator).get());
}

bool Torch::is_opaque(PyObject* tensor) const {
  const python::Ref type = python::type_of(api_, tensor);
  if (type.get() == tensor_.get() || type.get() == parameter_.get()) return false;  // nearly all
  const python::Ref dispatch = python::attribute(api_, type.get(), "__torch_dispatch__");
  return dispatch.get() != plain_dispatch_.get();
}

std::string Torch::fake_device(PyObject* tensor) const {
  if (python::type_name(api_, python::type_of(api_, tensor).get()) != "FakeTensor") return {};
  const python::Ref own = python::instance_dict(api_, tensor);
  for (const char* name : {"fake_device", "_fake_device"})  // the latter from 2.15 on
    if (const python::Ref device = python::entry(api_, own.get(), name)) return python::as_text(api_, device.get());
  return {};
}

python::Ref Torch::get(PyObject* tensor, const char* name) const {
  const python::Ref descriptor = python::attribute(api_, tensor_base_.get(), name);
  return python::call_with(api_, python::attribute(api_, descriptor.get(), "__get__").get(), tensor);
}

python::Ref Torch::invoke(PyObject* tensor, const char* method) const {
  return python::call_with(api_, python::attribute(api_, tensor_base_.get(), method).get(), tensor);
}

TensorPlacement Torch::placement(PyObject* tensor) const {
  const long long elements = python::integer(api_, invoke(tensor, "numel").get(), 0);
  const long long item = python::integer(api_, invoke(tensor, "element_size").get(), 0);
  return {python::as_text(api_, get(tensor, "device").get()), elements * item};
}

uintptr_t Torch::storage(PyObject* tensor) const {
  const uintptr_t own = own_storage(tensor);
  if (own != 0 || !dispatch_modes_ || !python::is_true(api_, get(tensor, "is_sparse").get())) return own;
  // PyTorch's dispatcher gives the values: a mode would see that.
  if (python::integer(api_, python::call(api_, dispatch_modes_.get()).get(), 1) != 0) return 0;
  const python::Ref values = invoke(tensor, "_values");
  return values ? own_storage(values.get()) : 0;
}

uintptr_t Torch::own_storage(PyObject* tensor) const {
  // Of the storage, and without copying one that is shared until written to (data_ptr() would).
  if (data_address_)
    return static_cast<uintptr_t>(python::integer(api_, python::call_with(api_, data_address_.get(), tensor).get(), 0));
  const auto address = static_cast<uintptr_t>(python::integer(api_, invoke(tensor, "data_ptr").get(), 0));
  if (address == 0) return 0;
  return address - static_cast<uintptr_t>(python::integer(api_, invoke(tensor, "storage_offset").get(), 0) *
                                          python::integer(api_, invoke(tensor, "element_size").get(), 0));
}

TensorFacts Torch::facts(PyObject* tensor) const {
  TensorFacts facts;
  facts.object = tensor;
  facts.device = python::as_text(api_, get(tensor, "device").get());
  facts.dtype = python::as_text(api_, get(tensor, "dtype").get());
  if (facts.dtype.starts_with("torch.")) facts.dtype.erase(0, 6);
  int64_t elements = 1;
  const python::Ref shape = get(tensor, "shape");
  for (ssize_t i = 0, n = shape ? api_.PySequence_Size(shape.get()) : 0; i < n; ++i) {
    facts.shape.push_back(python::integer(api_, python::Ref(api_, api_.PySequence_GetItem(shape.get(), i)).get(), -1));
    elements *= facts.shape.back();
  }
  const long long item = python::integer(api_, invoke(tensor, "element_size").get(), 0);
  facts.bytes = elements * item;
  facts.storage = storage(tensor);
  const long long offset = python::integer(api_, invoke(tensor, "storage_offset").get(), -1);
  if (facts.storage != 0 && offset >= 0) facts.address = facts.storage + static_cast<uintptr_t>(offset * item);
  const python::Ref grad = get(tensor, "requires_grad");
  facts.requires_grad = grad && python::is_true(api_, grad.get());
  facts.is_parameter = is_a(tensor, parameter_);
  return facts;
}

std::string Torch::version() const {
  return python::as_text(api_, python::attribute(api_, torch_.get(), "__version__").get());
}

python::Ref module_table(const python::Api& api, PyObject* module, const ModuleTable& table) {
  return python::entry(api, python::instance_dict(api, module).get(), table.name);
}

bool for_each_state_tensor(const python::Api& api, const Torch& torch, PyObject* module, const VisitTensor& visit) {
  for (const ModuleTable& table : kStateTables) {
    const python::Ref dict = module_table(api, module, table);
    for (python::DictEntries each(api, dict.get()); each.next();)
      if (torch.is_tensor(each.value()) && !visit(each.value(), python::text(api, each.key()), table.role))
        return false;
  }
  return true;
}

bool is_of_class(const python::Api& api, PyObject* object, const std::string& type) {
  const python::Ref own = python::type_of(api, object), classes = python::bases_of(api, own.get());
  for (ssize_t i = 0, n = classes ? api.PyTuple_Size(classes.get()) : 0; i < n; ++i)
    if (python::type_name(api, api.PyTuple_GetItem(classes.get(), i)) == type) return true;
  return class_of(api, object) == type;
}

}  // namespace devtrace::evidence
