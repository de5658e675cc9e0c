// What the tracker asks of the report, once per finding, inside the user's process. Everything here works on records as
// docs/reference/log.md describes them and on nothing else; none of it throws, touches the locale, or keeps state
// between calls.
#pragma once

#include "report/html/html.h"
#include "report/log/fingerprint.h"
#include "report/record/json.h"
#include "report/text/text.h"
#include "report/verdict/verdict.h"
