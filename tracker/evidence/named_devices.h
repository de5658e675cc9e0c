// Devices that a call names without giving a tensor there.
#pragma once

#include <functional>
#include <string>

#include "tracker/evidence/objects/torch_objects.h"

namespace devtrace::evidence {

// The device of a torch.device, of "cuda:1", of a storage, a stream, an event or a generator, of a class like
// torch.cuda.FloatStorage. The same in a list or as the values of a dict. Calls visit(device), as PyTorch writes
// it: "cuda:1", "cuda", "meta". Reads objects of torch's own classes only.
void for_each_named_device(const python::Api& api, const Torch& torch, PyObject* value,
                           const std::function<void(const std::string& device)>& visit);

// The same of the values of a device map, where a number is a device.
void for_each_mapped_device(const python::Api& api, PyObject* map,
                            const std::function<void(const std::string& device)>& visit);

// "cuda:7" of 7; empty where it is no index of a device.
std::string device_of_index(const python::Api& api, PyObject* value);

}  // namespace devtrace::evidence
