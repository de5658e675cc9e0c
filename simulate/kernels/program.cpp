#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binary/ptx/parse.h"
#include "simulate/kernels/code.h"
#include "simulate/kernels/decoder.h"

namespace devtrace::simulate::kernels {

std::shared_ptr<const Program> load(std::string text, std::string* error) {
  ptx::Error wrong;
  std::optional<ptx::Module> module = ptx::parse(std::move(text), &wrong);
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
  program->codes.resize(functions.size());
  for (uint32_t i = 0; i < functions.size(); ++i)
    if (functions[i].defined) Decoder(program.get(), i).decode();
  return program;
}

}  // namespace devtrace::simulate::kernels
