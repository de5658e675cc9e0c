#include "tracker/python/python_api.h"

#include <gtest/gtest.h>

#include "tests/unit/tracker/stacks/embedded_python.h"

namespace python = devtrace::python;
using devtrace::testing::EmbeddedPython;

namespace {

std::string seen;

// From before Python starts until after it has ended; what is wrong, or nothing.
std::string life(const std::string& path) {
  std::string out;
  if (python::api()) out += "there before it is loaded; ";
  const EmbeddedPython embedded(path);
  if (!embedded.library) return "cannot be loaded";
  if (python::api()) out += "usable before it starts; ";
  embedded.start("look", [] { seen += python::api() ? '1' : '0'; });
  embedded.get<int(const char*)>("PyRun_SimpleString")(
      "look()\nclass Late:\n def __del__(self, look=look): look()\nimport sys\nsys.late = Late()");
  embedded.get<int()>("Py_FinalizeEx")();
  if (seen != "10") out += "seen while it runs and while it ends: " + seen + "; ";
  if (python::api()) out += "usable after its end";
  return out;
}

}  // namespace

TEST(PythonApi, IsUsableWhilePythonRuns) {
  const std::vector<std::string> pythons = devtrace::testing::libpythons();
  if (pythons.empty()) GTEST_SKIP() << "no libpython here";
  for (const std::string& path : pythons)
    EXPECT_EQ(devtrace::testing::in_a_child([&] { return life(path); }), "") << path;
}
