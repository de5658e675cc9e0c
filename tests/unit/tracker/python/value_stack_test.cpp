#include "tracker/python/objects/value_stack.h"

#include <gtest/gtest.h>

#include "tests/unit/tracker/stacks/embedded_python.h"
#include "tracker/python/live_frames.h"
#include "tracker/python/objects/bytecode.h"

namespace python = devtrace::python;
using devtrace::testing::EmbeddedPython;

namespace {

std::string seen;

std::optional<python::StackOperands> given_here(const python::Api& api) {
  const python::FrameSource source = python::FrameSource::of_this_thread();
  const std::vector<python::RawFrame> frames = python::live_frames(source, 1);
  return frames.empty() ? std::nullopt : python::operands_on_stack(api, *source.reader, frames[0]);
}

// What the innermost frame's instruction was given, as Python prints it, or its class: [receiver] values.
void look() {
  const python::Api* api = python::api();
  const auto found = given_here(*api);
  if (!found) {
    seen = "nothing";
    return;
  }
  const auto shown = [&](PyObject* value) {
    const std::string text = python::as_text(*api, value);
    return text.empty() ? python::type_name(*api, python::type_of(*api, value).get()) : text;
  };
  seen = found->receiver ? "[" + shown(found->receiver) + "]" : "";
  for (PyObject* value : found->values) seen += " " + shown(value);
}

struct Case {
  const char* code;  // calls look(…), or the method `look` of an object that prints as its name
  const char* seen;
};

// As many ways to a call as change the depth of the stack.
constexpr Case kCases[] = {
    {"look(1, 'two')", " 1 two"},
    {"look(1, two=2)", " 1 2"},
    {"look(*[1, 2])", "nothing"},  // CPython has made a tuple of the list, which nothing holds any more
    {"look(*(1, 2), **{'x': 3})", " 1 2 3"},
    {"class Some(tuple): pass\nlook(*Some((1, 2)))", "nothing"},
    {"import collections\nlook(*(1, 2), **collections.OrderedDict(x=3))",
     " 1 2 3"},  // copied by the instructions before
    {"x = [0, 1, look(2, 3)]", " 2 3"},
    {"x = {0: look(2, 3)}", " 2 3"},
    {"x = str(0) + str(look(2, 3))", " 2 3"},
    {"f = 'a' if 0 else (7, look(5, 6))", " 5 6"},
    {"for i in range(2):\n  for j in (4, 5):\n    look(i, j)", " 1 5"},
    {"def f(a, b):\n  c = a + b\n  return [c, look(a, c)]\nf(1, 2)", " 1 3"},
    {"def f(a):\n  def g(): return a\n  return (g, look(a, a))\nf(1)", " 1 1"},
    {"def f(a):\n  def g(): return (a, look(a, 9))\n  return g()\nf(1)", " 1 9"},
    {"def f():\n  try:\n    1 / 0\n  except ZeroDivisionError as e:\n    return [0, look(1, 2)]\nf()", " 1 2"},
    {"def f():\n  try:\n    return 1\n  finally:\n    look(3, 4)\nf()", " 3 4"},
    {"def f():\n  try:\n    1 / 0\n  finally:\n    look(3, 5)\ntry: f()\nexcept ZeroDivisionError: pass", " 3 5"},
    {"class M:\n  def __enter__(self): return 5\n  def __exit__(self, *a): return True\n"
     "def f():\n  with M() as m, M():\n    for k in (1,):\n      look(m, k)\nf()",
     " 5 1"},
    {"class M:\n  def __enter__(self): return 5\n  def __exit__(self, *a): return True\n"
     "def f():\n  with M() as m:\n    1 / 0\n  look(m, 2)\nf()",
     " 5 2"},
    {"def g():\n  x = yield 1\n  yield [0, look(x, 8)]\nk = g(); next(k); k.send(7)", " 7 8"},
    {"def g():\n  yield from (0, look(6, 8))\nlist(g())", " 6 8"},
    {"def g():\n  while True:\n    x = yield\n    look(x, 8)\nk = g(); next(k); k.send(1); k.send(2)", " 2 8"},
    {"import asyncio\nclass A:\n  async def __aenter__(self): return 3\n  async def __aexit__(self, *a): pass\n"
     "async def f():\n  async with A() as a:\n    return [a, look(a, 4)]\nasyncio.run(f())",
     " 3 4"},
    {"async def f():\n  async def g():\n    for i in (1, 2): yield i\n  async for i in g():\n    look(0, i)\n"
     "import asyncio\nasyncio.run(f())",
     " 0 2"},
    {"x = [look(i, j) for i in (1, 2) for j in (3, 4) if j > 3]", " 2 4"},
    {"x = list(look(i, 0) for i in (1, 2))", " 2 0"},
    {"a = 5\nx = a < 6 < 7 and [look(a, 1)]", " 5 1"},
    {"def f(x):\n  match x:\n    case [1, y]: return look(y, 1)\nf([1, 2])", " 2 1"},
    {"assert look(1, 2) == 0, look(3, 4)", " 1 2"},
    {"class Late:\n  look = look\n  def f(self): return (1, self.look(5))\nLate().f()", " 5"},
    {"class Left:\n  __add__ = look\nx = [0, Left() + 3]", " Left 3"},
    {"class Left:\n  __iadd__ = look\nx = Left()\nx += 3", " Left 3"},
    {"class Left:\n  __gt__ = look\nx = [0, Left() > 3]", " Left 3"},
    {"class Left:\n  __getitem__ = look\nx = [0, Left()[3]]", " Left 3"},
    {"class Left:\n  __setitem__ = look\nx = Left()\nx[3] = 4", " Left 3 4"},
    {"class Left:\n  __neg__ = look\nx = [0, -Left()]", " Left"},
};

constexpr const char* kEveryCode = R"(
import glob, os, sys, types
def every(code):
    read(code)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType): every(constant)
for path in sorted(glob.glob(os.path.dirname(os.__file__) + '/*.py')):
    with open(path, 'rb') as file: text = file.read()
    try: whole = compile(text, path, 'exec', dont_inherit=True)
    except SyntaxError: continue
    every(whole)
)";

size_t codes = 0;
std::string unread;

void read_code() {
  const python::Api* api = python::api();
  const auto given = given_here(*api);
  if (!given || given->values.size() != 1) {
    unread += "the call itself; ";
    return;
  }
  ++codes;
  if (unread.size() > 500) return;
  const auto bytecode =
      python::Bytecode::read(*api, given->values[0], python::FrameSource::of_this_thread().reader->layout.minor);
  if (!bytecode)
    unread += python::text(*api, python::attribute(*api, given->values[0], "co_filename").get()) + " " +
              python::text(*api, python::attribute(*api, given->values[0], "co_name").get()) + "; ";
}

// Modules written in C, which asyncio and opcode import, look for Python's functions among the global ones.
bool made_global(const std::string& path) {
  return dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD) != nullptr;
}

std::string cases(const std::string& path) {
  const EmbeddedPython embedded(path);
  if (!embedded.library || !made_global(path)) return "cannot be loaded";
  embedded.start("look", look);
  embedded.run("import opcode");
  std::string wrong;
  for (const Case& each : kCases) {
    const std::string code(each.code);
    if (code.find("match ") != code.npos && path.find("3.9") != path.npos) continue;  // no such statement yet
    seen = "not called";
    if (!embedded.run(each.code)) wrong += "does not run: " + code + '\n';
    if (seen != each.seen) wrong += code + "\n gives " + seen + '\n';
  }
  return wrong;
}

std::string every_code(const std::string& path) {
  const EmbeddedPython embedded(path);
  if (!embedded.library || !made_global(path)) return "cannot be loaded";
  embedded.start("read", read_code);
  embedded.run("import opcode");
  if (!embedded.run(kEveryCode)) return "does not run";
  if (codes < 1000) return "only " + std::to_string(codes) + " code objects";
  return unread;
}

}  // namespace

TEST(ValueStack, GivesWhatTheInstructionWasGiven) {
  const std::vector<std::string> pythons = devtrace::testing::libpythons();
  if (pythons.empty()) GTEST_SKIP() << "no libpython here";
  for (const std::string& path : pythons)
    EXPECT_EQ(devtrace::testing::in_a_child([&] { return cases(path); }), "") << path;
}

// Two ways to one instruction that disagree would show that an effect is not understood.
TEST(ValueStack, CountsTheDepthInAllOfTheStandardLibrary) {
  const std::vector<std::string> pythons = devtrace::testing::libpythons();
  if (pythons.empty()) GTEST_SKIP() << "no libpython here";
  for (const std::string& path : pythons)
    EXPECT_EQ(devtrace::testing::in_a_child([&] { return every_code(path); }), "") << path;
}
