// Where a program of several ranks begins its process group.
#pragma once

#include "finding/finding.h"

namespace devtrace::evidence {

// In a file that the stack passes, read from disk. Empty where none has it.
finding::GroupSetup group_setup(const finding::Stack& stack);

}  // namespace devtrace::evidence
