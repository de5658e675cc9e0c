// Precompiled for unit tests (scripts/make/precompiled.mk); no file includes it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/record/precompiled.h"
