// The rows at which two slabs meet, each copied into the other.
#pragma once

#include "slab.h"

void exchange(Slab& upper, Slab& lower);
