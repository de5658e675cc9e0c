#include "report/base/cpp_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/base/signature.h"

namespace devtrace::report {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Signature, NameWithoutTypesAndParameters) {
  EXPECT_EQ(name_in_signature("cudaError cudaMalloc<float>(float**, unsigned long)"), "cudaMalloc<float>");
  EXPECT_EQ(name_in_signature("main"), "main");
  EXPECT_EQ(name_in_signature("mine::Field::Field(unsigned long)"), "mine::Field::Field");
  EXPECT_EQ(name_in_signature("void (anonymous namespace)::step<int, std::less<int> >(int*)"),
            "(anonymous namespace)::step<int, std::less<int> >");
  EXPECT_EQ(name_in_signature("Functor::operator()(int) const"), "Functor::operator()");
  EXPECT_EQ(name_in_signature("bool Key::operator<(Key const&) const"), "Key::operator<");
  EXPECT_EQ(name_in_signature(""), "");
}

TEST(Signature, NameWithoutNamespaces) {
  EXPECT_EQ(unqualified_name("void mine::add<float, std::less<int> >(float*)"), "add");
  EXPECT_EQ(unqualified_name("Field<float> operator+<float>(Field<float> const&)"), "operator+");
  EXPECT_EQ(unqualified_name("bool Key<int>::operator<(Key const&) const"), "operator<");
  EXPECT_EQ(unqualified_name("bool operator< <int>(Key<int> const&, Key<int> const&)"), "operator<");
  EXPECT_EQ(unqualified_name("operators::add(int)"), "add");
  EXPECT_EQ(unqualified_name("void (anonymous namespace)::each<f(int)::{lambda(int)#1}>(int)"), "each");
  EXPECT_EQ(unqualified_name(""), "");
}

TEST(Signature, NameOfWhatIsDefinedInAFunction) {
  EXPECT_EQ(name_in_signature("main::{lambda()#1}::operator()() const"), "main::{lambda()#1}::operator()");
  EXPECT_EQ(name_in_signature("auto outer(int)::{lambda(auto:1)#1}::operator()<int>(int) const"),
            "outer(int)::{lambda(auto:1)#1}::operator()<int>");
  EXPECT_EQ(name_in_signature("main::'lambda'(a::B)::operator()(a::B) const"), "main::'lambda'(a::B)::operator()");
  EXPECT_EQ(name_in_signature("Key::operator()() const::Local::operator<(Local const&)"),
            "Key::operator()() const::Local::operator<");
  EXPECT_EQ(name_in_signature("main::{lambda"), "main::{lambda") << "cut off";
  EXPECT_EQ(unqualified_name("main::{lambda(a::B)#1}::operator()(a::B) const"), "operator()");
  EXPECT_EQ(unqualified_name("Key::operator()(int) const::{lambda(int)#1}::_FUN(int)"), "_FUN");
  EXPECT_EQ(short_name_in_signature("main::{lambda()#1}::operator()() const"), "main::{lambda()#1}::operator()");
  EXPECT_THAT(parameter_types("f(int)::{lambda(float)#1}::operator()(float) const"), ElementsAre("float"));
}

TEST(Signature, NameThatFitsALine) {
  EXPECT_EQ(short_name_in_signature("Field<float> mine::add<float, 4>(int)"), "mine::add<float, 4>");
  EXPECT_EQ(short_name_in_signature("void each<scale(double*, unsigned long, double)::{lambda(double)#1}>(double*)"),
            "each<…>");
  EXPECT_EQ(short_name_in_signature("Loader<std::vector<std::vector<std::vector<std::string> > >, int>::next<int>()"),
            "Loader<…>::next<int>");
  EXPECT_EQ(short_name_in_signature("bool Key::operator<(Key const&) const"), "Key::operator<");
}

TEST(Signature, TypesOfParameters) {
  EXPECT_THAT(parameter_types("saxpy(float, float const*, std::pair<int, int>, int (*)(int, int))"),
              ElementsAre("float", "float const*", "std::pair<int, int>", "int (*)(int, int)"));
  EXPECT_THAT(parameter_types("void none()"), IsEmpty());
  EXPECT_THAT(parameter_types("saxpy"), IsEmpty());
}

TEST(CppSource, ArgumentsOfALaunch) {
  const auto call = only_call("saxpy<<<dim3(4, 1), 256, 0, stream>>>(2.f, x[i], field(a, b)); // saxpy(1)", "saxpy");
  ASSERT_TRUE(call);
  EXPECT_EQ(call->configuration, "dim3(4, 1), 256, 0, stream");
  EXPECT_THAT(call->arguments, ElementsAre("2.f", "x[i]", "field(a, b)"));
  const auto templated = only_call("add<float, 4><<<1, 32>>>(a, b);", "add");
  ASSERT_TRUE(templated);
  EXPECT_THAT(templated->arguments, ElementsAre("a", "b"));
}

TEST(CppSource, StreamOfALaunch) {
  EXPECT_EQ(stream_of_launch("  saxpy<<<grid(n, 2), 256, 0, streams[i]>>>(x, y);", "saxpy"), "streams[i]");
  EXPECT_EQ(stream_of_launch("  saxpy<float><<<4, 256, 0, this->stream>>>(x, y);", "saxpy"), "this->stream");
  EXPECT_EQ(stream_of_launch("  saxpy<<<4, 256>>>(x, y);", "saxpy"), "") << "the default one is not written";
  EXPECT_EQ(stream_of_launch("cudaLaunchKernel(f, dim3(1, 2), 32, arguments, 0, mine);", "saxpy"), "mine");
  EXPECT_EQ(stream_of_launch("cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, mine, arguments, 0);", "saxpy"), "mine");
  EXPECT_EQ(stream_of_launch("step(x, y, mine);", "saxpy"), "");
}

TEST(CppSource, ReceiverOfAMethod) {
  const auto call = only_call("auto y = net->fc[0].weight.matmul(torch::relu(x), \"a,b\");", "matmul");
  ASSERT_TRUE(call);
  EXPECT_EQ(call->receiver, "net->fc[0].weight");
  EXPECT_THAT(call->arguments, ElementsAre("torch::relu(x)", "\"a,b\""));
  const auto free = only_call("return torch::add(left, right);", "add");
  ASSERT_TRUE(free);
  EXPECT_EQ(free->receiver, "");
  EXPECT_THAT(free->arguments, ElementsAre("left", "right"));
}

TEST(CppSource, NothingWhereItIsNotClear) {
  EXPECT_FALSE(only_call("add(a) + add(b);", "add")) << "two calls";
  EXPECT_FALSE(only_call("int add = x; // add(1)", "add"));
  EXPECT_FALSE(only_call("padded(a);", "add"));
  EXPECT_FALSE(only_call("add(a, b", "add")) << "the rest is in another line";
  EXPECT_FALSE(only_operator("a + b + c", "+"));
  EXPECT_FALSE(only_operator("++i;", "+"));
  EXPECT_FALSE(only_operator("f(-x)", "-"));
}

TEST(CppSource, SidesOfAnOperator) {
  const auto sum = only_operator("auto y = left.relu() + right[0];", "+");
  ASSERT_TRUE(sum);
  EXPECT_THAT(sum->arguments, ElementsAre("left.relu()", "right[0]"));
  const auto in_place = only_operator("x += y;", "+=");
  ASSERT_TRUE(in_place);
  EXPECT_THAT(in_place->arguments, ElementsAre("x", "y"));
  EXPECT_FALSE(only_operator("x += y;", "+"));
}

TEST(CppSource, NamesOfParameters) {
  EXPECT_EQ(name_of_parameter("const float* __restrict__ x"), "x");
  EXPECT_EQ(name_of_parameter("float y[4]"), "y");
  EXPECT_EQ(name_of_parameter("int n = 3"), "n");
  EXPECT_EQ(name_of_parameter("float*"), "");
  EXPECT_EQ(name_of_parameter("unsigned int"), "");
}

TEST(CppSource, LinesOfAStatement) {
  EXPECT_EQ(shape_of("copy(to, from,").open, 1);
  EXPECT_TRUE(shape_of("copy(to, from);  // of all").is_statement);
  EXPECT_FALSE(shape_of("Timer() { cudaEventCreate(&begin); }").is_statement);
  EXPECT_EQ(shape_of("     bytes);").open, -1);
  EXPECT_EQ(shape_of("say(\"(\");  // (").open, 0);
}

TEST(CppSource, SidesBesideTheOperatorsOwnName) {
  const auto sides = operator_arguments("Vec operator+(const Vec& o) const { return {t + o.t}; }  // +", "add");
  ASSERT_TRUE(sides);
  EXPECT_THAT(*sides, ElementsAre("t", "o.t"));
}

TEST(CppSource, WhatIsWrittenToStandsLastInTheOperatorsOrder) {
  const auto arguments = operator_arguments("at::add_out(host, a, b);", "add");
  ASSERT_TRUE(arguments);
  EXPECT_THAT(*arguments, ElementsAre("a", "b", "host"));
}

TEST(CppSource, CallsAndSigns) {
  EXPECT_TRUE(calls("return {x.cpu(), y};", "cpu"));
  EXPECT_FALSE(calls("return {x.gpu(), cpu};", "cpu"));
  EXPECT_FALSE(calls("// cpu()", "cpu"));
  EXPECT_TRUE(calls("return {a * b};", "operator*"));
  EXPECT_FALSE(calls("return {a, b};", "operator*"));
  EXPECT_FALSE(calls("f();", ""));
}

}  // namespace
}  // namespace devtrace::report
