#include "tracker/evidence/lineage/function_text.h"

#include <gtest/gtest.h>

namespace devtrace::evidence {
namespace {

const Lines kLines = {
    "import torch",                       // 1
    "class Trainer:",                     // 2
    "    steps = Counter()",              // 3
    "",                                   // 4
    "    def setup(self):",               // 5
    "        if self.ready:",             // 6
    "            self.memory = Memory(",  // 7
    "                4,",                 // 8
    "            )",                      // 9
    "        def later():",               // 10
    "            return Memory(8)",       // 11
    "    class Part:",                    // 12
    "        async def run(self):",       // 13
    "            return Memory(2)",       // 14
    "trainer = Trainer()",                // 15
    "def main():",                        // 16
    "    return trainer.setup()",         // 17
};

TEST(FunctionAround, IsNamedAsCPythonNamesIt) {
  EXPECT_EQ(function_around(kLines, 7), "Trainer.setup");
  EXPECT_EQ(function_around(kLines, 8), "Trainer.setup") << "a line that goes on";
  EXPECT_EQ(function_around(kLines, 11), "Trainer.setup.<locals>.later");
  EXPECT_EQ(function_around(kLines, 14), "Trainer.Part.run");
  EXPECT_EQ(function_around(kLines, 17), "main");
}

TEST(FunctionAround, OutsideOfFunctions) {
  EXPECT_EQ(function_around(kLines, 1), "<module>");
  EXPECT_EQ(function_around(kLines, 15), "<module>");
  EXPECT_EQ(function_around(kLines, 3), "") << "the body of a class has no name that a frame could have";
}

}  // namespace
}  // namespace devtrace::evidence
