// Functions of the program's own that its running functions call further down: what these will do has not been seen.
#pragma once

#include "tracker/evidence/lineage/known_names.h"
#include "tracker/evidence/objects/holders.h"

namespace devtrace::evidence {

// For each frame whose text around is known those that it calls in its line or below, and what they call in turn; at
// most 16. As far as names lead to them: a function, a method, an object's `__call__`. No module, for what that does is
// known by where its state lies, and none that runs. Under the GIL.
finding::List<finding::CalledFunction> called_functions(const python::Api& api, const Torch& torch,
                                                        const std::vector<Frame>& frames, const Scope& scope,
                                                        ObjectWalk& walk, Holders& holders, const KnownNames& names,
                                                        const SourceText& source);

}  // namespace devtrace::evidence
