// One line on stderr.
#pragma once

#include <initializer_list>

namespace devtrace::fix::overlay {

// "devtrace: " and the parts, which is cut where it is longer than a line may be. errno is kept, and a reader who is
// gone kills nobody.
void warn(std::initializer_list<const char*> parts);

}  // namespace devtrace::fix::overlay
