// Tensors that the lines around a running line name: what these lines will meet.
#pragma once

#include "tracker/evidence/frames.h"
#include "tracker/evidence/source/scope.h"

namespace devtrace::evidence {

// Variables, their elements and the attributes of `self`, of each frame whose text around is known; at most 32 a frame.
// Without those that lie on "meta", and without a tensor of no dimensions on the CPU, which may meet any device. Under
// the GIL.
finding::List<finding::FrameExpression> tensors_around(const python::Api& api, const Torch& torch,
                                                       const std::vector<Frame>& frames, const Scope& scope,
                                                       ObjectWalk& walk);

}  // namespace devtrace::evidence
