// What findings of every kind have in common, as parts of their JSON records (docs/reference/log.md).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "report/base/json.h"
#include "tracker/evidence/frames.h"
#include "tracker/interface/event_types.h"
#include "tracker/memory/device_history.h"
#include "tracker/memory/provenance.h"
#include "tracker/stacks/stacks.h"

namespace devtrace::log::record_fields {

using report::Json;

// `record`, `kind`, `time` and the calling thread.
Json begin(const char* kind);

// The text of a line and what stands around it: from Python, which knows notebooks too, or from disk, where the GIL
// may not be taken.
struct SourceText {
  std::function<std::string(const std::string& file, int line)> lines;
  std::function<evidence::Excerpt(const std::string& file, int line)> around;
};
SourceText source_from_disk();

// The statement of C++ that a line is of, at most ten lines.
std::string cpp_statement(const SourceText& source, const std::string& file, int line);

// Absent facts are absent.
void add(Json& record, const char* key, std::string value);
// Of a line that is too long to be read there is none.
void add_source(Json& record, std::string text);

// Once each, and only devices that are one.
void add_device(Json& devices, const std::string& name);

Json python_json(const std::vector<evidence::Frame>& frames);
Json python_json(const std::vector<stacks::PythonFrame>& frames, const std::string& library, const SourceText& source);
// `kernel`: the launched one's name; a function of that name is nvcc's, which launches it.
Json native_json(const std::vector<stacks::NativeFrame>& frames, const SourceText& source,
                 std::string_view kernel = {});

// `python`, and where there was none `native` and `call`: the stack of an earlier event.
void add_stack(Json& record, stacks::StackId stack, const std::string& library, const SourceText& source);

// `created` and `moved` of the memory around `storage`, where they are known. `library`: the standard library's folder.
void add_provenance(Json& operand, uintptr_t storage, const std::string& library, const SourceText& source);

// `created` of what is no memory: where it was made, on which device, and who had chosen that.
void add_creation(Json& operand, const memory::provenance::Origin& origin, const SourceText& source);

// The same of a library's handle, a stream or an event, with the function that made it, if that was seen.
void add_handle_creation(Json& operand, events::LibraryHandle handle, const SourceText& source);

// `bytes` of the memory around an address that no tensor is known to lie in.
void add_extent(Json& operand, uintptr_t address);

// The calling thread's last changes of its current device, oldest first.
struct DeviceChanges {
  std::vector<memory::device_history::Choice> choices;
  stacks::StackId here = 0;       // the Python that the thread runs now
  stacks::StackId statement = 0;  // what it is doing, in whatever language
};
DeviceChanges device_changes();
// The same as `device_changes`; absent when there was none.
void add_device_changes(Json& record, const DeviceChanges& taken, const std::string& library, const SourceText& source);

// The calling thread's native stack, from the function outside this library that called into it.
struct Native {
  std::vector<stacks::NativeFrame> frames;
  std::string operation;  // `at::_ops::index_select` gives index_select
  std::string calling;    // the operator whose kernel, in Python, is at work; empty: none is
  std::string asked;      // the outermost of these: kernels in Python call operators whose kernels are in Python
  bool autograd = false;  // the engine runs it: no Python expression asked for this operation
};

Native native_stack();

// The frame runs Python code: what is further out than that has called that Python.
bool evaluates_python(const stacks::NativeFrame& frame);

}  // namespace devtrace::log::record_fields
