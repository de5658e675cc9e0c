#include "binary/ptx/link.h"

#include <gtest/gtest.h>

#include "binary/ptx/parse.h"

namespace {

using namespace devtrace::ptx;

std::string module(const std::string& body, const std::string& version = "7.8") {
  return ".version " + version + "\n.target sm_80\n.address_size 64\n" + body;
}

Module linked(const std::vector<std::string>& texts) {
  std::string why;
  const auto text = link(texts, &why);
  EXPECT_TRUE(text) << why;
  Error error;
  auto parsed = parse(text.value_or(""), &error);
  EXPECT_TRUE(parsed) << error.line << ": " << error.text << "\n" << text.value_or("");
  return parsed ? std::move(*parsed) : Module();
}

TEST(PtxLink, AFunctionOfAnotherModuleAndAVariable) {
  const Module all =
      linked({module(".extern .func (.param .b32 r) twice(.param .b32 x);\n.extern .global .align 4 .b8 table[16];\n"
                     ".visible .entry k() {\n.reg .b64 %rd<2>;\nmov.u64 %rd1, table;\nret;\n}"),
              module(".visible .global .align 4 .b8 table[16] = {7};\n"
                     ".visible .func (.param .b32 r) twice(.param .b32 x)\n{\nret;\n}",
                     "8.3")});
  EXPECT_EQ(all.version, 83);
  ASSERT_TRUE(all.find("twice"));
  EXPECT_TRUE(all.find("twice")->defined);
  ASSERT_EQ(all.variables.size(), 1u);
  EXPECT_FALSE(all.variables[0].external);
  const Operand& address = all.find("k")->body[0].operands[1];
  EXPECT_EQ(address.kind, Operand::Kind::global);
  EXPECT_EQ(address.index, 0u);
}

TEST(PtxLink, NamesOfAModuleAloneStayApart) {
  const std::string text = ".global .align 1 .b8 $str[2] = {";
  const auto entry = [](const std::string& name) {
    return "};\n.func helper()\n{\nret;\n}\n.visible .entry " + name +
           "() {\n.reg .b64 %rd<2>;\nmov.u64 %rd1, $str;\ncall.uni helper;\nret;\n}";
  };
  const Module all = linked({module(text + "1" + entry("a")), module(text + "2" + entry("b"))});
  ASSERT_EQ(all.variables.size(), 2u);
  for (const auto& [name, value] : {std::pair{"a", 1}, {"b", 2}}) {
    const auto& body = all.find(name)->body;
    EXPECT_EQ(all.variables[body[0].operands[1].index].initial[0], value);
    ASSERT_TRUE(all.find(body[1].operands[0].name));
  }
  EXPECT_NE(all.find("a")->body[1].operands[0].name, all.find("b")->body[1].operands[0].name);
}

TEST(PtxLink, OfWeakOnesOneIsTaken) {
  const std::string weak = ".weak .func f()\n{\n.reg .b32 %r<2>;\nmov.u32 %r1, ";
  const Module all = linked({module(weak + "1;\nret;\n}"), module(weak + "2;\nret;\n}")});
  int defined = 0;
  for (const Function& f : all.functions) defined += f.defined;
  EXPECT_EQ(defined, 1);
  const Module strong = linked({module(weak + "1;\nret;\n}"), module(".visible .func f()\n{\nret;\n}")});
  EXPECT_EQ(strong.find("f")->body.size(), 1u);
}

TEST(PtxLink, LinesKeepTheirFiles) {
  const std::string body = "\n.visible .entry NAME() {\n.loc 1 5 3\nret;\n}";
  const auto with = [&](const std::string& file, const std::string& name) {
    return module(".file 1 \"" + file + "\"" + std::string(body).replace(body.find("NAME"), 4, name));
  };
  const Module all = linked({with("one.cu", "a"), with("two.cu", "b")});
  const auto file = [&](const char* name) {
    const Function& f = *all.find(name);
    return all.files.at(f.locations.at(f.body[0].location - 1).file);
  };
  EXPECT_EQ(file("a"), "one.cu");
  EXPECT_EQ(file("b"), "two.cu");
}

TEST(PtxLink, TwiceIsAnErrorAndBadTextNoHarm) {
  std::string why;
  const std::string one = module(".visible .entry k() {\nret;\n}");
  EXPECT_FALSE(link({one, one}, &why));
  EXPECT_EQ(why, "k is defined twice");
  for (size_t end = 0; end < one.size(); ++end) link({one.substr(0, end), ".extern", "{{{", one}, &why);
}

}  // namespace
