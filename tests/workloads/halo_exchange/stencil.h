// One step in time of a slab; the result lies in `field`.
#pragma once

#include "slab.h"

void advance(Slab& slab);
