// The one kernel, and the places among its parameters where a pointer may stand.
#pragma once

#include <string>

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

}  // namespace matrix
