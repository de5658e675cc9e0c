// A way to launch the kernel, or to put it into a graph.
#pragma once

#include <functional>
#include <vector>

#include "tests/programs/matrix/cuda.h"
#include "tests/programs/matrix/kernel.h"

namespace matrix {

struct Call {
  Arguments& arguments;
  void** parameters;  // an address for each
  void** extra;       // the one block
};

struct Launch {
  const char* name;  // the function; behind a colon in which way
  std::function<int(const Call&)> run;
};

std::vector<Launch> plain_launches();
std::vector<Launch> graph_nodes();

// With the parameters in each of their two forms.
int run(const Launch& launch, Arguments& arguments);

// A kernel node of the driver's, its parameters one by one or as one block.
template <class Parameters>
Parameters driver_node(CUfunction function, const Call& call, bool as_block) {
  Parameters p{};
  p.func = function;
  p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
  if (as_block)
    p.extra = call.extra;
  else
    p.kernelParams = call.parameters;
  return p;
}

}  // namespace matrix
