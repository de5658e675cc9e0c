#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "binary/ptx/link.h"
#include "binary/ptx/parse.h"
#include "simulate/kernels/code.h"
#include "simulate/kernels/decoder.h"

namespace devtrace::simulate::kernels {

namespace {

// What the device's runtime has for the barrier of a grid, which compilers call that have no header for it (numba's).
// All blocks count up in the launch's workspace, one of them so that the highest bit turns when all are there.
constexpr std::string_view kGridBarrier = R"(.version 7.0
.target sm_70
.address_size 64
.visible .func (.param .b64 r) cudaCGGetIntrinsicHandle(.param .b32 scope) {
  .reg .b32 %h, %l; .reg .b64 %v;
  mov.u32 %h, %envreg1; mov.u32 %l, %envreg2; mov.b64 %v, {%l, %h};
  st.param.b64 [r], %v; ret;
}
.visible .func (.param .b32 r) cudaCGSynchronize(.param .b64 handle, .param .b32 flags) {
  .reg .b32 %r<9>; .reg .b64 %v; .reg .pred %p<4>;
  ld.param.b64 %v, [handle];
  setp.ne.u64 %p1, %v, 0; @%p1 bra MEET;
  st.param.b32 [r], 1; ret;
MEET: bar.sync 0;
  mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; or.b32 %r1, %r1, %r2;
  mov.u32 %r2, %tid.z; or.b32 %r1, %r1, %r2;
  setp.ne.u32 %p1, %r1, 0; @%p1 bra DONE;
  mov.u32 %r1, %nctaid.x; mov.u32 %r2, %nctaid.y; mul.lo.u32 %r1, %r1, %r2;
  mov.u32 %r2, %nctaid.z; mul.lo.u32 %r1, %r1, %r2;
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ctaid.y; or.b32 %r2, %r2, %r3;
  mov.u32 %r3, %ctaid.z; or.b32 %r2, %r2, %r3;
  setp.eq.u32 %p2, %r2, 0;
  sub.u32 %r4, 0x80000001, %r1; selp.b32 %r4, %r4, 1, %p2;
  atom.add.release.gpu.u32 %r5, [%v+4], %r4;
AGAIN: ld.acquire.gpu.u32 %r6, [%v+4];
  xor.b32 %r7, %r5, %r6; setp.ge.s32 %p3, %r7, 0; @%p3 bra AGAIN;
DONE: bar.sync 0;
  st.param.b32 [r], 0; ret;
}
)";

bool wants_grid_barrier(const ptx::Module& module) {
  return std::ranges::any_of(module.functions, [&](const ptx::Function& f) {
    return (f.name == "cudaCGSynchronize" || f.name == "cudaCGGetIntrinsicHandle") && !module.find(f.name)->defined;
  });
}

void find_globals(const ptx::Operand& operand, std::vector<bool>* used) {
  if (operand.kind == ptx::Operand::Kind::global && operand.index < used->size()) (*used)[operand.index] = true;
  for (const ptx::Operand& part : operand.parts) find_globals(part, used);
}

}  // namespace

void find_globals(const ptx::Function& function, std::vector<bool>* used) {
  for (const ptx::Instruction& instruction : function.body)
    for (const ptx::Operand& operand : instruction.operands) find_globals(operand, used);
}

std::shared_ptr<const Program> load(std::string text, std::string* error) {
  ptx::Error wrong;
  std::optional<ptx::Module> module = ptx::parse(std::move(text), &wrong);
  if (module && wants_grid_barrier(*module)) {
    std::optional<std::string> linked = ptx::link({*module->text, std::string(kGridBarrier)}, error);
    if (!linked) return nullptr;
    module = ptx::parse(std::move(*linked), &wrong);
  }
  if (!module) {
    *error = "line " + std::to_string(wrong.line) + ": " + wrong.text;
    return nullptr;
  }
  auto program = std::make_shared<Program>();
  program->module = std::move(*module);
  const std::vector<ptx::Function>& functions = program->module.functions;
  for (uint32_t i = 0; i < functions.size(); ++i) {
    const auto [known, added] = program->functions.try_emplace(functions[i].name, i);
    if (!added && functions[i].defined) known->second = i;
  }
  program->used_by_functions.resize(program->module.variables.size());
  for (const ptx::Function& f : functions)
    if (!f.entry) find_globals(f, &program->used_by_functions);
  program->codes.resize(functions.size());
  for (uint32_t i = 0; i < functions.size(); ++i)
    if (functions[i].defined) Decoder(program.get(), i).decode();
  return program;
}

}  // namespace devtrace::simulate::kernels
