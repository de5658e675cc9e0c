// An operator's name and arguments.
#include "tracker/evidence/operator_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tracker/evidence/operation.h"
#include "tracker/evidence/source/prologue.h"

namespace devtrace::evidence {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Schema, NamesAndTypesOfParameters) {
  const Schema add = parse_schema("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
  EXPECT_EQ(add.operation, "add");
  EXPECT_EQ(add.overload, "Tensor");
  EXPECT_THAT(add.parameters, ElementsAre("self", "other", "alpha"));
  EXPECT_THAT(add.types, ElementsAre("Tensor", "Tensor", "Scalar"));
  const Schema cat = parse_schema("aten::cat(Tensor[] tensors, int dim=0) -> Tensor");
  EXPECT_EQ(cat.operation, "cat");
  EXPECT_EQ(cat.overload, "");
  EXPECT_THAT(cat.types, ElementsAre("Tensor[]", "int"));
  const Schema padded =
      parse_schema("f(Tensor(a!) self, SymInt[2] stride=[1, 1], Tensor? bias={}) -> (Tensor, Tensor)");
  EXPECT_THAT(padded.parameters, ElementsAre("self", "stride", "bias"));
  EXPECT_THAT(parse_schema("nothing").parameters, IsEmpty());
}

TEST(Passing, HowParametersComeInRegisters) {
  using Holds = Passing::Holds;
  const auto is = [](const char* type, int registers, int stack, Holds holds) {
    const Passing passing = passing_of(type);
    EXPECT_EQ(passing.registers, registers) << type;
    EXPECT_EQ(passing.stack_words, stack) << type;
    EXPECT_EQ(passing.holds, holds) << type;
  };
  is("at::Tensor const&", 1, 0, Holds::tensor);
  is("at::Tensor&", 1, 0, Holds::tensor);
  is("std::optional<at::Tensor> const&", 1, 0, Holds::optional_tensor);
  is("c10::ArrayRef<at::Tensor>", 2, 0, Holds::tensors);
  is("c10::List<std::optional<at::Tensor> > const&", 1, 0, Holds::list_of_tensors);
  is("c10::IListRef<at::Tensor> const&", 1, 0, Holds::list_reference);
  is("c10::ArrayRef<c10::SymInt>", 2, 0, Holds::other);
  is("c10::OptionalArrayRef<long>", 0, 3, Holds::other);
  is("std::optional<long>", 2, 0, Holds::other);
  is("double", 0, 0, Holds::other);
  is("long", 1, 0, Holds::other);
}

TEST(Prologue, FollowsArgumentsIntoKeptRegistersAndTheFrame) {
  // push rbp; mov rbp,rsp; push r15; mov r13,rdx; mov r12,rsi; sub rsp,0x98; mov [rbp-0xa8],rdi; test al,al
  const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0x41, 0x57, 0x49, 0x89, 0xd5, 0x49, 0x89,
                          0xf4, 0x48, 0x81, 0xec, 0x98, 0,    0,    0,    0x48, 0x89, 0xbd,
                          0x58, 0xff, 0xff, 0xff, 0x84, 0xc0, 0x49, 0x89, 0xfc};  // behind the comparison nothing
                                                                                  // counts
  const KeptArguments kept = kept_arguments(code, sizeof code);
  ASSERT_EQ(kept[0].size(), 1u);
  EXPECT_TRUE(kept[0][0].in_memory);
  EXPECT_EQ(kept[0][0].base, 5);
  EXPECT_EQ(kept[0][0].displacement, -0xa8);
  ASSERT_EQ(kept[1].size(), 1u);
  EXPECT_FALSE(kept[1][0].in_memory);
  EXPECT_EQ(kept[1][0].base, 12);
  ASSERT_EQ(kept[2].size(), 1u);
  EXPECT_EQ(kept[2][0].base, 13);
  EXPECT_TRUE(kept[3].empty());
}

TEST(Prologue, ForgetsARegisterThatGetsAnotherValue) {
  // mov rbx,rdi; mov [rsp+8],rsi; mov rbx,rdx
  const uint8_t code[] = {0x48, 0x89, 0xfb, 0x48, 0x89, 0x74, 0x24, 0x08, 0x48, 0x89, 0xd3};
  const KeptArguments kept = kept_arguments(code, sizeof code);
  EXPECT_TRUE(kept[0].empty());
  ASSERT_EQ(kept[1].size(), 1u);
  EXPECT_EQ(kept[1][0].base, 4);
  EXPECT_EQ(kept[1][0].displacement, 8);
  ASSERT_EQ(kept[2].size(), 1u);
  EXPECT_EQ(kept[2][0].base, 3);
}

TEST(Prologue, EndsAnywhere) {
  const uint8_t code[] = {0x48, 0x89, 0xbd, 0x58, 0xff, 0xff, 0xff, 0x48, 0x81, 0xec, 0x98, 0, 0, 0, 0x66, 0x0f, 0x29};
  for (size_t bytes = 0; bytes <= sizeof code; ++bytes) {
    const KeptArguments kept = kept_arguments(code, bytes);
    EXPECT_EQ(kept[0].size(), bytes >= 7 ? 1u : 0u) << bytes;
  }
}

}  // namespace
}  // namespace devtrace::evidence

using devtrace::evidence::operation_of;

TEST(Operation, IsTheStructureOfADispatcherEntry) {
  EXPECT_EQ(operation_of("at::_ops::index_select::call(at::Tensor const&, long, at::Tensor const&)"), "index_select");
  EXPECT_EQ(operation_of("at::_ops::add__Tensor::redispatch(c10::DispatchKeySet, at::Tensor&)"), "add__Tensor");
}
TEST(Operation, IsEmptyForAnythingElse) {
  EXPECT_EQ(operation_of("at::native::index_select(at::Tensor const&)"), "");
  EXPECT_EQ(operation_of("at::_ops::"), "");
  EXPECT_EQ(operation_of("at::_ops::cat::schema_str()"), "");
  EXPECT_EQ(operation_of(""), "");
}
