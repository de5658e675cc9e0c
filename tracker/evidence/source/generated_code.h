// Code that a library wrote while the program ran: what dataclasses and `exec` compile, templates that are written to a
// temporary folder and imported (torch_geometric). Its lines are nobody's to change; the caller's are.
#pragma once

#include <string>

#include "tracker/python/python_api.h"

namespace devtrace::evidence {

class Source;

// Whether the file of a frame is such code, which is remembered: stacks without their frames ask for the file later.
// `globals`: the frame's; `standard_library`: as of is_project_file().
bool notice_generated(const python::Api& api, const std::string& file, const Source& source, PyObject* globals,
                      const std::string& standard_library);

bool is_generated(const std::string& file);

}  // namespace devtrace::evidence
