// libcupti, opened at run time: nobody has to have it.
#pragma once

// The headers' functions are only named here, never called: there is no library behind them.
#include <cupti.h>

#include <string>

// The functions of libcupti that are used.
#define CUPTI_FUNCTIONS(FUNCTION)          \
  FUNCTION(cuptiGetResultString)           \
  FUNCTION(cuptiSubscribe)                 \
  FUNCTION(cuptiSubscribe_v2)              \
  FUNCTION(cuptiUnsubscribe)               \
  FUNCTION(cuptiEnableCallback)            \
  FUNCTION(cuptiGetCallbackName)           \
  FUNCTION(cuptiActivityRegisterCallbacks) \
  FUNCTION(cuptiActivityEnable)            \
  FUNCTION(cuptiActivityDisable)           \
  FUNCTION(cuptiActivityFlushAll)          \
  FUNCTION(cuptiActivityFlushPeriod)       \
  FUNCTION(cuptiActivityGetNextRecord)

namespace devtrace::cupti_tracer {

// Every function that is used; null where the library is too old to have it.
struct Library {
#define CUPTI_FUNCTION(name) decltype(&::name) name = nullptr;
  CUPTI_FUNCTIONS(CUPTI_FUNCTION)
#undef CUPTI_FUNCTION

  // What CUPTI calls a result.
  std::string text(CUptiResult result) const;
};

// The library of the CUDA runtime that the process uses: the one that is loaded already, else the one beside the
// runtime, else the one that the loader finds. Null, and why in `why`, when there is none. Opened once, for good.
const Library* library(std::string& why);

}  // namespace devtrace::cupti_tracer
