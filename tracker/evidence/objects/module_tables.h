// The tables in which a torch.nn.Module keeps what belongs to it: attributes of the instance, dicts by name.
#pragma once

namespace devtrace::evidence {

struct ModuleTable {
  const char* name;
  const char* role;  // of what lies in it
};

inline constexpr ModuleTable kParameterTable{"_parameters", "parameter"};
inline constexpr ModuleTable kBufferTable{"_buffers", "buffer"};
inline constexpr ModuleTable kChildTable{"_modules", "attribute"};

inline constexpr ModuleTable kStateTables[] = {kParameterTable, kBufferTable};
// In the order in which nn.Module.__getattr__ looks a name up.
inline constexpr ModuleTable kModuleTables[] = {kParameterTable, kBufferTable, kChildTable};

}  // namespace devtrace::evidence
