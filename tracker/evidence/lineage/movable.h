// How the object that has a tensor, as a batch, can be brought to another device.
#pragma once

#include <string>

#include "finding/finding.h"
#include "tracker/evidence/origins/origins.h"
#include "tracker/evidence/source/scope.h"
#include "tracker/python/python_api.h"

namespace devtrace::evidence {

// Of what has the tensor under that name and is no module, `batch` of `batch.ids`. "moves": its class has a method `to`
// that gives a value. "frozen": its attributes cannot be assigned. Empty for anything else. Runs none of the program's
// code.
std::string kind_of_holder(const python::Api& api, const Torch& torch, const Scope& scope, const finding::Name& name,
                           const SourceText& source);

}  // namespace devtrace::evidence
