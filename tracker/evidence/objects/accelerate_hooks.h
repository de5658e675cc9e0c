// What accelerate has put on a module: its hook, its device map.
#pragma once

#include <string>
#include <vector>

#include "tracker/python/python_api.h"

namespace devtrace::evidence {

// "AlignDevicesHook(execution_device=1)"; empty without one.
std::string hook_of(const python::Api& api, PyObject* module);
// The names of arguments that the hook on a module does not move.
std::vector<std::string> skipped_by_hook(const python::Api& api, PyObject* module);
// The dict that says where each part of a model lies; empty without one.
python::Ref device_map_of(const python::Api& api, PyObject* model);
// What the device map of a model says of one of its tensors, `path`: "layers.1: cuda:1", "not in the map". Empty
// without a map.
std::string entry_of_device_map(const python::Api& api, PyObject* model, const std::string& path);

}  // namespace devtrace::evidence
