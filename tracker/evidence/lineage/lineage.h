// The lines that an operand passed on its way to where it was refused.
#pragma once

#include "tracker/evidence/lineage/known_names.h"
#include "tracker/evidence/operands.h"

namespace devtrace::evidence {

// Oldest first. Defaulted: the call that left the device to a default; given: that gave it. Then made, constructed (of
// a module's state: the line that calls the module's class), moved, returned, assigned. Returned: by the function that
// made or moved it, to one that still runs or has only handed it on. Each with the expressions that say a device there.
// Under the GIL; some milliseconds.
finding::List<finding::Step> lineage(const python::Api& api, const Operand& operand, const KnownNames& names,
                                     const std::vector<Frame>& frames, const SourceText& source);

}  // namespace devtrace::evidence
