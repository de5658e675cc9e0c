#include "binary/ptx/parse.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace {

using namespace devtrace::ptx;
using Kind = Operand::Kind;

constexpr char kHead[] = "// made by hand\n.version 7.8\n.target sm_90a\n.address_size 64\n";

Module parsed(const std::string& text) {
  Error error;
  auto module = parse(kHead + text, &error);
  EXPECT_TRUE(module) << error.line << ": " << error.text;
  return module ? std::move(*module) : Module();
}

// In a function with registers %r0 to %r9, %rd0 to %rd9, %p0, %p1 and a parameter.
Function body(const std::string& text) {
  const Module module = parsed(
      ".extern .shared .align 16 .b8 dynamic[];\n.global .align 4 .b32 table[4];\n"
      ".visible .entry kernel(.param .u64 .ptr .global .align 4 out) {\n"
      ".reg .pred %p<2>; .reg .b32 %r<10>; .reg .b64 %rd<10>; .reg .f32 %f<4>;\n" +
      text + "\n}");
  const Function* const f = module.find("kernel");
  return f ? *f : Function();
}

std::string why_not(const std::string& text) {
  Error error;
  return parse(text, &error) ? "" : std::to_string(error.line) + ": " + error.text;
}

TEST(PtxParse, HeadOfAModule) {
  const Module module = parsed("");
  EXPECT_EQ(module.version, 78);
  EXPECT_EQ(module.architecture, 90);
  EXPECT_EQ(module.address_size, 64);
  EXPECT_NE(module.header.find("made by hand"), std::string_view::npos);
}

TEST(PtxParse, VariablesWithInitialValues) {
  const Module module = parsed(
      ".global .align 8 .b8 text[6] = {104, 0x65, 0154, 0b1101100, 111, 0};\n"
      ".const .f32 half = 0f3F000000;\n.global .s16 less = -2;\n"
      ".global .u64 to = table;\n.global .u64 there[2] = {generic(table)+8, 0};\n.global .b32 table[4];\n"
      ".global .attribute(.managed) .u32 both;\n.global .b32 counted[] = {1, 2, 3};\n");
  const auto& v = module.variables;
  ASSERT_EQ(v.size(), 8u);
  EXPECT_EQ(std::string(v[0].initial.begin(), v[0].initial.end()), std::string("hello\0", 6));
  EXPECT_EQ(v[0].alignment, 8u);
  EXPECT_EQ(v[1].space, Space::constant);
  EXPECT_EQ(v[1].initial, (std::vector<uint8_t>{0, 0, 0, 0x3f}));
  EXPECT_EQ(v[2].initial, (std::vector<uint8_t>{0xfe, 0xff}));
  ASSERT_EQ(v[4].addresses.size(), 1u);
  EXPECT_EQ(v[4].addresses[0].symbol, "table");
  EXPECT_EQ(v[4].addresses[0].addend, 8);
  EXPECT_EQ(v[4].bytes, 16u);
  EXPECT_TRUE(v[6].managed);
  EXPECT_EQ(v[7].bytes, 12u);
}

TEST(PtxParse, FunctionsAndTheirParameters) {
  const Module module = parsed(
      ".func (.param .b32 result) twice(.param .align 8 .b8 pair[16], .reg .b32 by);\n"
      ".func (.param .b32 result) twice(.param .align 8 .b8 pair[16], .reg .b32 by) .noreturn { ret; }\n"
      ".entry small(.param .u8 a, .param .v2 .f32 b) .maxntid 32, 4, 1 .minnctapersm 2 { ret; }");
  ASSERT_EQ(module.functions.size(), 3u);
  const Function* const twice = module.find("twice");
  ASSERT_TRUE(twice && twice->defined);
  EXPECT_EQ(twice->parameters[0].bytes, 16u);
  EXPECT_EQ(twice->parameters[1].space, Space::reg);
  const Function* const small = module.find("small");
  EXPECT_EQ(small->max_threads, 128);
  EXPECT_EQ(small->parameters[1].bytes, 8u);
}

TEST(PtxParse, OperandsOfEveryKind) {
  const Function f = body(
      "@!%p1 setp.lt.and.s32 %p0|%p1, %r1, -7, !%p0;\n"
      "ld.global.L1::evict_last.v2.b32 {%r1, _}, [%rd2+-8];\n"
      "mov.u64 %rd1, table+12;\nmov.u32 %r1, %tid.x;\nfma.rn.f32 %f1, %f2, 0f40000000, 1.5e1;\n"
      "ld.param.u64 %rd1, [out];\nst.shared.b32 [dynamic+4], WARP_SZ;\ntex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%rd1, "
      "{%f1, %f2}];");
  ASSERT_EQ(f.body.size(), 8u);
  const Instruction& setp = f.body[0];
  EXPECT_TRUE(setp.guard == 1 && setp.guard_negated);
  EXPECT_TRUE(setp.has(".lt") && setp.has(".and") && setp.has(".s32"));
  EXPECT_EQ(setp.operands[0].kind, Kind::pair);
  EXPECT_EQ(setp.operands[2].value, static_cast<uint64_t>(-7));
  EXPECT_TRUE(setp.operands[3].negated);
  EXPECT_TRUE(f.body[1].has(".L1::evict_last"));
  EXPECT_EQ(f.body[1].operands[0].parts[1].kind, Kind::sink);
  EXPECT_EQ(static_cast<int64_t>(f.body[1].operands[1].value), -8);
  EXPECT_EQ(f.body[2].operands[1].kind, Kind::global);
  EXPECT_EQ(f.body[2].operands[1].value, 12u);
  EXPECT_EQ(f.body[3].operands[1].name, "%tid.x");
  EXPECT_EQ(f.body[4].operands[2].kind, Kind::real32);
  EXPECT_EQ(f.body[4].operands[3].kind, Kind::real);
  EXPECT_EQ(f.body[5].operands[1].parts[0].kind, Kind::parameter);
  EXPECT_EQ(f.body[6].operands[1].value, 32u);
  EXPECT_EQ(f.body[7].operands[1].parts[1].kind, Kind::vector);
}

TEST(PtxParse, CallsBranchesAndTables) {
  const Function f = body(
      "{ .param .b64 a0; .param .b32 back; st.param.b64 [a0], %rd1; call.uni (back), somewhere, (a0); }\n"
      "call (%r1), %rd1, (%r2), form;\nform: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
      "bra there;\nchoices: .branchtargets here, there;\nbrx.idx %r1, choices;\nhere: add.s32 %r1, %r1, 1;\nthere: "
      "ret;");
  ASSERT_EQ(f.body.size(), 7u);
  EXPECT_EQ(f.body[1].operands[0].kind, Kind::list);
  EXPECT_EQ(f.body[1].operands[1].name, "somewhere");
  EXPECT_EQ(f.body[2].operands[1].kind, Kind::reg);
  EXPECT_EQ(f.body[3].operands[0].kind, Kind::label);
  EXPECT_EQ(f.body[3].operands[0].index, 6u);
  EXPECT_EQ(f.body[4].operands[1].kind, Kind::table);
  EXPECT_EQ(f.tables, (std::vector<std::vector<uint32_t>>{{5, 6}}));
}

TEST(PtxParse, ScopesHaveRegistersAndLabelsOfTheirOwn) {
  const Function f =
      body("{ .reg .b64 %r1; L: mov.b64 %r1, 1; bra L; }\n{ .reg .b32 t; L: mov.b32 t, %r1; bra L; }\nbra L;\nL: ret;");
  ASSERT_EQ(f.body.size(), 6u);
  EXPECT_EQ(f.registers[f.body[0].operands[0].index].type, Type::b64);
  EXPECT_EQ(f.registers[f.body[2].operands[1].index].type, Type::b32);
  EXPECT_EQ(f.body[1].operands[0].index, 0u);
  EXPECT_EQ(f.body[3].operands[0].index, 2u);
  EXPECT_EQ(f.body[4].operands[0].index, 5u);
}

TEST(PtxParse, LinesOfTheSource) {
  const Module module = parsed(
      ".entry k() {\n.loc 1 7 3\nret;\n.loc 1 9 0, function_name info+20, inlined_at 1 7 3\nret;\n}\n"
      ".file 1 \"a folder/k.cu\", 123, 45\n.section .debug_str { info: .b8 1 .b8 2 }\n");
  const Function* const f = module.find("k");
  ASSERT_EQ(f->body.size(), 2u);
  const Location& inlined = f->locations[f->body[1].location - 1];
  EXPECT_EQ(inlined.line, 9u);
  ASSERT_NE(inlined.caller, 0u);
  EXPECT_EQ(f->locations[inlined.caller - 1].line, 7u);
  EXPECT_EQ(module.files.at(1), "a folder/k.cu");
}

TEST(PtxParse, BadTextIsAnErrorWithItsLine) {
  EXPECT_EQ(why_not(""), "1: expected .version at the end");
  EXPECT_EQ(why_not(".version 7.0\n.nonsense 3"), "2: unknown directive '.nonsense' before at '3'");
  EXPECT_EQ(why_not(".version 7.0\n.entry k() {\nadd.s32 1 2;\n}"), "3: expected ';' at '2'");
  EXPECT_EQ(why_not(".version 7.0\n.entry k() {\nret;"), "3: the function does not end at the end");
  EXPECT_NE(why_not(".version 7.0\n.entry k() { .reg .b32 %r<4294967295>; }"), "");
  EXPECT_NE(why_not(".version 7.0\n.entry k() " + std::string(100000, '{')), "");
  EXPECT_NE(why_not(".version 7.0\n.entry k() { mov.b32 " + std::string(100000, '(') + "; }"), "");
  EXPECT_NE(why_not(".version 7.0\n.global .b8 a[2] = {1, 2, 3};"), "");
}

// Nothing but an error or a module comes of it. The seed is fixed: the same texts each time.
TEST(PtxParse, ChangedAndTornTextNeverHarms) {
  const std::string whole =
      std::string(kHead) +
      ".global .align 4 .b32 table[4] = {1, 2, generic(table)+4};\n.func (.reg .v2 .u32 r) f(.param .b64 a) { ret; }\n"
      ".entry k(.param .u64 out) {\n.reg .pred %p<2>; .reg .b32 %r<5>;\n.loc 1 2 3\n"
      "@%p1 bra L;\n{ .param .b64 a; call (%r1), f, (a); }\nL: ld.global.v2.b32 {%r1, %r2}, [%r3+-4];\n"
      "t: .branchtargets L;\nbrx.idx %r1, t;\nmov.f64 %r1, -1.5e-3;\nret;\n}\n.file 1 \"x\"\n";
  std::mt19937 random(1);
  for (size_t end = 0; end < whole.size(); ++end) why_not(whole.substr(0, end));
  for (int round = 0; round < 20000; ++round) {
    std::string text = whole;
    for (int i = random() % 4; i >= 0; --i) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = "{}()[]<>.,;:|!@-+%_$0x9fn\"/* \n"[random() % 30];
          break;
        case 1:
          text.erase(at, random() % 9);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
      }
    }
    why_not(text);
  }
}

}  // namespace
