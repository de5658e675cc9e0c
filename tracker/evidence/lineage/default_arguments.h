// Who has said the device to a function that takes one: a call that gives it, or one that leaves it to the default.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tracker/evidence/lineage/known_names.h"

namespace devtrace::evidence {

struct DeviceArgument {
  size_t frame = 0;       // of the stack, in whose line the call is
  std::string call;       // `self.anchors`, as it is written
  std::string parameter;  // of the function called
  bool left_out = false;
  std::string value;  // what it was given, or its default, as that is written
};

// By which call the line in that frame of a stack came to the device: followed outward through functions of the
// user's that give on what they were given. Nothing where their text does not show it. Under the GIL; some parses of a
// line.
std::optional<DeviceArgument> device_argument(const python::Api& api, const std::vector<stacks::PythonFrame>& made,
                                              size_t frame, const KnownNames& names, const SourceText& source);

// Does that call of the stack say another device than this one? Then it has not decided about what lies here: the
// function has made that without it. Under the GIL.
bool says_another(const DeviceArgument& said, const std::vector<stacks::PythonFrame>& made, uint64_t time,
                  std::string_view device, const KnownNames& names);

// The program's only line that constructs an object of the class whose method that is. Its call leaves out the device
// that the object keeps, `Simulator(steps)`, for which the constructor has that one instead. Nothing for a module,
// which is moved. Under the GIL; one parse of a line.
struct ConstructorCall {
  stacks::PythonFrame line;
  std::string call, parameter, value;
};
std::optional<ConstructorCall> constructed_without_device(const python::Api& api, const stacks::PythonFrame& method,
                                                          std::string_view device, const KnownNames& names,
                                                          const SourceText& source);

}  // namespace devtrace::evidence
