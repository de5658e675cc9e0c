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

#include "report/base/format.h"
#include "report/base/json.h"
