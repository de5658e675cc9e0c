// The real headers, with everything they declare exported.
#pragma once
#pragma GCC visibility push(default)
#include <cupti.h>
#pragma GCC visibility pop
