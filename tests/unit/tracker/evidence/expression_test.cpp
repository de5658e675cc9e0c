#include "tracker/evidence/source/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/tracker/stacks/embedded_python.h"

using devtrace::evidence::Expression;
using devtrace::evidence::Path;
using devtrace::evidence::read_expression;
using devtrace::evidence::Step;
using devtrace::evidence::Value;
namespace python = devtrace::python;

namespace {

// A value by its path, or in <> by its text.
std::string shown(const Value& value) {
  if (value.number) return "number";
  return value.path ? to_string(*value.path) : "<" + value.text + ">";
}

std::string shown(const Expression& expression) {
  std::string out;
  for (const auto& operation : expression.operations) {
    if (!out.empty()) out += " | ";
    for (const Value& value : operation.given) out += (out.empty() || out.ends_with(' ') ? "" : ", ") + shown(value);
    if (operation.hidden) out += " and more";
  }
  return out;
}

struct Case {
  const char* text;
  const char* operands;
  const char* statement = "";
};

constexpr Case kExact[] = {
    {"torch.cat((presents, kv_cache), dim=0)", "torch, presents, kv_cache, number"},
    {"f(input=x, weight = self.weight, eq=a == b)", "x, self.weight, <a == b>"},
    {"past[0].view(-1).sum() + b", "<past[0].view(-1).sum()>, b"},
    {"batch['ids'][0] + cache[layer][:, pos]", "batch[\"ids\"][0], <cache[layer][:, pos]>"},
    {"cache[layer] + x[-1]", "cache[layer], x[-1]"},
    {"x[i, 1:n]", "x, i, number, n"},
    {"op(*args, **kwargs, a=args)", "args, kwargs, args"},
    {"f('a b', r'e', '''g''', 1.5e3, x if y else None, *[z])", "number, <x if y else None>, z"},
    {"f(*g(), a)", "<g()>, a and more"},
    {"f([x for x in y], a)", "a and more"},
    {"f(a)(b)", "b and more"},
    {"(a + b).sum().foo[c]", "<(a + b).sum().foo>, c"},
    {"größe + 变量", "größe, 变量"},
    {"a @ (\n  b *\n    2)", "a, <b * 2>"},
    {"x.masked_fill(y.eq(z), float('-inf'))", "x, <y.eq(z)>, number"},
    {"-x", "x"},
    {"a += b", "a, b"},
    {"a < b < c", ""},
    {"x[i]", "x, i, y", "x[i] = y"},
    {"x[i]", "x, i, <y + z>", "first = x[i] = (y +\n z)"},
    {"x.data", "x, y", "if x: x.data = y"},
    {"f('never closed, x", ""},
    {"a[", ""},
    {"f('\\d', x)", ""},  // Python would warn
    {"", ""},
};

constexpr Case kLines[] = {
    {"y = a * 2 + b.neg()", "<a * 2>, <b.neg()> | a, number | b"},
    {"if torch.equal(a, b):", "torch, a, b"},
    {"return (lambda: a + b)", ""},
    {"x[i] = y", "x, i, y | x, i"},
    {"+ b", "b"},
    {"b)", ""},
};

// Which of the interpreter's values each one is: `r` what a method was called on, `?` not known.
constexpr Case kPlaces[] = {
    {"torch.cat((a, b), dim=0)", "r 0.0 0.1 1"},
    {"torch.cat([a, *b, c], dim=d)", "r 0.0 ? ? 1"},
    {"x.add(y, alpha=z)", "r 0 1"},
    {"f(a, *b, c, d=e)", "0 ? ? ?"},
    {"f(a, **b)", "0 ?"},
    {"a + b", "0 1"},
    {"a < b", "0 1"},
    {"x[i, j]", "0 1.0 1.1"},
    {"x[i:j]", "0 ? ?"},
    {"x[i]", "0 1 2", "x[i] = y"},
    {"x.data", "0 1", "x.data = y"},
};

// By which keyword each one is given: `-` by none.
constexpr Case kKeywords[] = {
    {"loss(a, target=b, weights=[c, d])", "- target weights weights"},
    {"model(**batch, x=y)", "- x"},
    {"a + b", "- -"},
};

std::string keywords(const Expression& expression) {
  std::string out;
  for (const auto& operation : expression.operations)
    for (const Value& value : operation.given)
      out += (out.empty() ? "" : " ") + (value.keyword.empty() ? "-" : value.keyword);
  return out;
}

// Where the values of which lie, that is where the expression's value lies: `-` nobody knows.
constexpr Case kLike[] = {
    {"f(torch.abs(x))", "x"},
    {"f(torch.zeros_like(x, dtype=t))", "x"},
    {"f(torch.zeros_like(x, device=d))", "-"},
    {"f(torch.matmul(x, y))", "x y"},
    {"f(torch.gather(x, 1, index))", "x number index"},
    {"f(torch.argsort(x, y))", "x"},
    {"f(torch.zeros(n))", "-"},
    {"f(torch.bernoulli(p))", "p"},
    {"f(x.matmul(y))", "x"},
    {"f(x.new_zeros(n))", "x"},
    {"f(x.new_zeros(n, device=d))", "-"},
    {"f(x.to(d))", "-"},
    {"f(x.is_floating_point())", "-"},
};

// What a result was computed from: not what goes to another device first.
constexpr Case kUsed[] = {
    {"y = f(x, z.shape)", "f x z.shape"},
    {"y = f(x.to(device), z)", "f z"},
    {"y = f(x.to('cuda:1'), x.to(torch.half), z.cpu())", "f x.to torch.half"},
    {"y = f(m, [x.to(d.device) for x in xs], zs)", "f m zs"},
    {"y = {k: v.cuda() for k, v in b.items()}", ""},
    {"y = [x.to(dtype) for x in xs]", "x.to dtype xs"},
};

std::string used(const Expression& expression) {
  std::string out;
  for (const Path& path : expression.used) out += (out.empty() ? "" : " ") + to_string(path);
  return out;
}

std::string likes(const Expression& expression) {
  std::string out;
  for (const auto& operation : expression.operations)
    for (const Value& value : operation.given)
      for (const Value& part : value.like) out += (out.empty() ? "" : " ") + shown(part);
  return out.empty() ? "-" : out;
}

std::string places(const Expression& expression) {
  std::string out;
  for (const auto& operation : expression.operations)
    for (const Value& value : operation.given) {
      if (!out.empty()) out += ' ';
      if (value.place.empty()) out += '?';
      for (size_t i = 0; i < value.place.size(); ++i)
        out += (i == 0 ? "" : ".") + (value.place[i] == Value::kReceiver ? "r" : std::to_string(value.place[i]));
    }
  return out;
}

// What is wrong in that Python; empty: nothing. Runs in a child of its own: a process starts Python once only.
std::string faults(const std::string& path) {
  const devtrace::testing::EmbeddedPython embedded(path);
  // Global: for names beyond ASCII the parser loads an extension module, which looks for Python there.
  if (!embedded.library || !dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL)) return "cannot be loaded";
  embedded.get<void(int)>("Py_InitializeEx")(0);
  const python::Api* api = python::api();
  if (!api) return "no Python found";
  const python::Gil gil(*api);
  std::string out;
  const auto check = [&](const Case& one, bool exact) {
    const std::string got = shown(read_expression(*api, one.text, exact, one.statement));
    if (got != one.operands) out += std::string("\n  ") + one.text + "  gives  " + got;
  };
  for (const Case& one : kExact) check(one, true);
  for (const Case& one : kLines) check(one, false);
  for (const Case& one : kPlaces)
    if (const std::string got = places(read_expression(*api, one.text, true, one.statement)); got != one.operands)
      out += std::string("\n  ") + one.text + "  has places  " + got;
  for (const Case& one : kKeywords)
    if (const std::string got = keywords(read_expression(*api, one.text, true, "")); got != one.operands)
      out += std::string("\n  ") + one.text + "  has keywords  " + got;
  for (const Case& one : kLike)
    if (const std::string got = likes(read_expression(*api, one.text, true, "")); got != one.operands)
      out += std::string("\n  ") + one.text + "  lies where  " + got;
  for (const Case& one : kUsed)
    if (const std::string got = used(read_expression(*api, one.text, false, "")); got != one.operands)
      out += std::string("\n  ") + one.text + "  uses  " + got;
  return out;
}

}  // namespace

TEST(Expression, WhatAnOperationWasGivenInEveryPython) {
  const std::vector<std::string> pythons = devtrace::testing::libpythons();
  if (pythons.empty()) GTEST_SKIP() << "no libpython here";
  for (const std::string& path : pythons)
    EXPECT_EQ(devtrace::testing::in_a_child([&] { return faults(path); }), "") << path;
}

TEST(Expression, PathsReadAsPythonWritesThem) {
  EXPECT_EQ(to_string(Path{"batch", {{Step::key, "ids", 0}, {Step::index, "", -1}, {Step::attribute, "data", 0}}}),
            "batch[\"ids\"][-1].data");
  EXPECT_EQ(to_string(Path{"cache", {{Step::variable, "layer", 0}}}), "cache[layer]");
}
