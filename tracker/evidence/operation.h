// The operation's name out of the native stack, or out of Python where no operator of the dispatcher is at work.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tracker/evidence/frames.h"

namespace devtrace::evidence {

// `index_select` for a frame of at::_ops::index_select::call or ::redispatch (PyTorch exports one such structure for
// every operator and overload); empty for every other function.
std::string operation_of(std::string_view function);

// {`sum`, `dim_IntList`} for the structure's name `sum_dim_IntList`: PyTorch's registry says where the overload's name
// begins. {name, ""} when it does not know the operator.
std::pair<std::string, std::string> schema_name(const python::Api& api, const std::string& structure);

// `jiterator::gelu` where the innermost frame launches the user's kernel `gelu` through torch.cuda.jiterator; else
// empty.
std::string jitted_kernel(const python::Api& api, const std::vector<Frame>& frames);

}  // namespace devtrace::evidence
