// One mistake in several lines: tensors that came to where an operand lies in the same way as it did.
#pragma once

#include <vector>

#include "tracker/evidence/lineage/known_names.h"
#include "tracker/evidence/objects/holders.h"
#include "tracker/evidence/operands.h"

namespace devtrace::evidence {

// Tensors that the running functions which have the operand compute with in the same line or below. Of a module's
// attributes also those that a method called below computes with. The function that put the operand on its device has
// put them there, too, or one statement gave both their names. Or a module keeps both as attributes that it has not
// registered: then `held_by` has the line of its constructor. At most four; none of `operands`, and no state of a
// module. Each as an operand of the frame that has it. Under the GIL.
finding::List<finding::Operand> siblings(const python::Api& api, const Torch& torch, const Operand& operand,
                                         const std::vector<Operand>& operands, const std::vector<Frame>& frames,
                                         const Scope& scope, ObjectWalk& walk, const Holders& holders,
                                         const KnownNames& names, const SourceText& source);

// The line that brought what stands beside the operand, or beside what holds it, to another device, and left that. For
// example `value.to(device) if isinstance(value, torch.Tensor) else value`, of a list; or a batch's own `to`. Empty
// `what`: none. Under the GIL.
finding::Step left_within(const Torch& torch, const Operand& operand, const std::vector<Frame>& frames,
                          const Scope& scope, ObjectWalk& walk, const SourceText& source);

}  // namespace devtrace::evidence
