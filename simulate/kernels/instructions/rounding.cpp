#include "simulate/kernels/instructions/rounding.h"

#include <cfenv>

namespace devtrace::simulate::kernels {
namespace {

void set_rounding(Machine&, const Step& s) {
  std::fesetround(static_cast<int>(s.immediate));
}

struct Name {
  std::string_view modifier;
  int rounding;
};
constexpr Name kNames[] = {{".rz", FE_TOWARDZERO}, {".rm", FE_DOWNWARD}, {".rp", FE_UPWARD}};

}  // namespace

Step& emit_rounded(Decoder& d, Handler run, const Slots& slots) {
  for (const Name& name : kNames) {
    if (!d.has(name.modifier)) continue;
    d.emit(set_rounding).immediate = name.rounding;
    d.emit(run, slots.d, slots.a, slots.b, slots.c);
    d.emit(set_rounding).immediate = FE_TONEAREST;
    std::vector<Step>& steps = d.code().steps;
    return steps[steps.size() - 2];
  }
  return d.emit(run, slots.d, slots.a, slots.b, slots.c);
}

}  // namespace devtrace::simulate::kernels
