// Precompiled for unit tests (scripts/make/precompiled.mk); no file includes it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/format.h"
#include "report/record/json.h"
