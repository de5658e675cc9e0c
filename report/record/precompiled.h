// Precompiled for report/ and what writes records (scripts/make/precompiled.mk); no file includes it.
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
