// Tensors that the lines around a running line name: what these lines will meet.
#pragma once

#include "tracker/evidence/frames.h"
#include "tracker/evidence/objects/holders.h"
#include "tracker/evidence/source/scope.h"

namespace devtrace::evidence {

// Variables, their elements and the attributes of modules, of each frame whose text around is known; at most 32 a
// frame. A module that the text calls as `net()`, if its state lies on one device, or it has none, and no hook of
// accelerate's brings it what it is given. Without tensors on "meta", and without those of no dimensions on the CPU:
// these may meet any device. Under the GIL.
finding::List<finding::FrameExpression> tensors_around(const python::Api& api, const Torch& torch,
                                                       const std::vector<Frame>& frames, const Scope& scope,
                                                       ObjectWalk& walk, Holders& holders);
// … and what these lines call a device, `self.device`.
finding::List<finding::FrameExpression> devices_around(const python::Api& api, const Torch& torch,
                                                       const std::vector<Frame>& frames, const Scope& scope);

// The same of one object, by the name that a text has for it.
finding::List<finding::DeviceExpression> tensors_of(const python::Api& api, const Torch& torch, PyObject* object,
                                                    const std::string& name, const std::string& text, ObjectWalk& walk,
                                                    Holders& holders);

}  // namespace devtrace::evidence
