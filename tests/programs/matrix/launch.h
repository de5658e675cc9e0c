// The one kernel with the places among its parameters where a pointer may stand, and the ways to launch it or to put it
// into a graph.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/programs/matrix/stage.h"

namespace matrix {

constexpr int kTensors = 30;
struct Both {
  int number;
  void* inside;
};
struct List {
  int count;
  void* tensors[kTensors];
};
struct Arguments {
  void* first;
  Both both;
  List list;
};

// kernel(void* first, Both both, List list), which reads from every pointer. PTX, which the stubs read.
std::string kernel_text();

constexpr const char* kPlaces[] = {"first", "struct", "list"};

// All pointers lead to `usual`, but that in `place` to `other`; of no such place: all are usual.
Arguments arguments_with(const char* place, void* usual, void* other);

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

// Of a temporary, for as long as the call lasts.
template <class Value>
Value* address(Value&& value) {
  return &value;
}

// A kernel node of the driver's, its parameters one by one or as one block.
template <class Parameters>
Parameters driver_node(const Call& call, bool as_block = false) {
  Parameters p{};
  p.func = functions[0];
  p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
  if (as_block)
    p.extra = call.extra;
  else
    p.kernelParams = call.parameters;
  return p;
}

}  // namespace matrix
