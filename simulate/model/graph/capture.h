// Stream capture: operations become nodes of a graph instead of being done.
#pragma once

#include "simulate/model/graph/graph.h"
#include "simulate/model/stream.h"

namespace devtrace::simulate {

struct Capture {
  CUgraph graph = nullptr;
  bool own_graph = true;      // false: captured into a graph that the program made
  CUstream origin = nullptr;  // null once the capture ended
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  unsigned long long id = 0;
  unsigned long long thread = 0;  // that began it
  bool invalid = false;
  std::vector<CUstream> members;  // streams that joined by waiting for an event, the origin too
  std::vector<CUgraphNode> left;  // the last nodes of those that were destroyed since
};

inline bool capturing(CUstream stream) {
  return stream->capture != nullptr;
}

CUresult begin_capture(CUstream stream, CUstreamCaptureMode mode, CUgraph into, const CUgraphNode* tips, size_t count);
CUresult end_capture(CUstream stream, CUgraph* graph);
// Adds the operation behind the stream's tips.
CUresult capture(CUstream stream, Operation operation);
CUresult capture_record(CUevent event, CUstream stream);
CUresult capture_wait(CUstream stream, CUevent event);
// A capturing stream may not wait for work outside of its capture.
CUresult capture_isolation(CUstream stream);
void leave_capture(CUstream stream);
// Nobody may ask for the end of work that is being captured, which is then spoilt.
CUresult check_not_capturing(CUstream stream);
CUresult check_not_captured(CUevent event);

// Work on the default stream while a blocking stream of its context captures: would become part of it unseen, so is
// refused.
CUresult check_implicit(CUstream stream);
// Calls that cannot be captured (allocation, synchronisation): refused while a capture that forbids them is under way,
// which they also spoil. PyTorch exchanges the thread's mode around its own.
CUresult check_unsafe();
// Nor can what waits for a whole context one of whose streams captures, in any mode.
CUresult check_context(CUcontext context);
CUstreamCaptureMode exchange_mode(CUstreamCaptureMode mode);

}  // namespace devtrace::simulate
