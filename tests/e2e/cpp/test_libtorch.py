"""LibTorch programs: what C++ knows of a refused operation's operands, and the line that brings them together."""

import subprocess

import pytest
from conftest import only
from cpp_programs import build_torch, line_of, own, run

# Sixty of PyTorch's operators, each with one operand on another device. Of each the line, its tensors by the names in the operator's schema
# (an element of a list as `tensors[1]`), and what the line writes for each.
# `f`, `g`, `m`: [4, 4] floats; `v`: [4]; `i`: integers in [0, 4); `q`: of [2, 3, 8, 8]. A name that ends in 1 lies on cuda:1, else on cuda:0.
OPERATORS = {
    "add": ("torch::add(f, g1)", {"self": "f", "other": "g1"}),
    "add by sign": ("f + g1", {"self": "f", "other": "g1"}),
    "sub": ("f.sub(g1)", {"self": "f", "other": "g1"}),
    "mul by sign": ("f * g1", {"self": "f", "other": "g1"}),
    "div": ("torch::div(f, g1)", {"self": "f", "other": "g1"}),
    "add_": ("f.add_(g1)", {"self": "f", "other": "g1"}),
    "mul_ by sign": ("f *= g1", {"self": "f", "other": "g1"}),
    "pow": ("torch::pow(f, g1)", {"self": "f", "exponent": "g1"}),
    "atan2": ("torch::atan2(f, g1)", {"self": "f", "other": "g1"}),
    "fmod": ("f.fmod(g1)", {"self": "f", "other": "g1"}),
    "remainder": ("torch::remainder(f, g1)", {"self": "f", "other": "g1"}),
    "maximum": ("torch::maximum(f, g1)", {"self": "f", "other": "g1"}),
    "minimum": ("torch::minimum(f, g1)", {"self": "f", "other": "g1"}),
    "hypot": ("torch::hypot(f, g1)", {"self": "f", "other": "g1"}),
    "lerp": ("torch::lerp(f, g1, 0.5)", {"self": "f", "end": "g1"}),
    "eq": ("torch::eq(f, g1)", {"self": "f", "other": "g1"}),
    "lt by sign": ("f < g1", {"self": "f", "other": "g1"}),
    "ge": ("f.ge(g1)", {"self": "f", "other": "g1"}),
    "logical_and": ("torch::logical_and(f, g1)", {"self": "f", "other": "g1"}),
    "bitwise_and": ("torch::bitwise_and(i, i1)", {"self": "i", "other": "i1"}),
    "where": ("torch::where(f > 0, f, g1)", {"self": "f", "other": "g1"}),
    "addcmul": ("torch::addcmul(f, g1, m)", {"self": "f", "tensor1": "g1", "tensor2": "m"}),
    "addcdiv": ("torch::addcdiv(f, g, g1)", {"self": "f", "tensor1": "g", "tensor2": "g1"}),
    "mm": ("torch::mm(f, g1)", {"self": "f", "mat2": "g1"}),
    "mv": ("torch::mv(f, v1)", {"self": "f", "vec": "v1"}),
    "dot": ("torch::dot(v, v1)", {"self": "v", "tensor": "v1"}),
    "addmm": ("torch::addmm(f, g, g1)", {"self": "f", "mat1": "g", "mat2": "g1"}),
    "addmv": ("torch::addmv(v, f, v1)", {"self": "v", "mat": "f", "vec": "v1"}),
    "baddbmm": ("torch::baddbmm(b, b, b1)", {"self": "b", "batch1": "b", "batch2": "b1"}),
    "bmm": ("torch::bmm(b, b1)", {"self": "b", "mat2": "b1"}),
    "addr": ("torch::addr(f, v, v1)", {"self": "f", "vec1": "v", "vec2": "v1"}),
    "cat": ("torch::cat({f, g1})", {"tensors[0]": "f", "tensors[1]": "g1"}),
    "index_select": ("torch::index_select(f, 0, i1)", {"self": "f", "index": "i1"}),
    "gather": ("torch::gather(f, 1, n1)", {"self": "f", "index": "n1"}),
    "scatter": ("torch::scatter(f, 1, n1, g)", {"self": "f", "index": "n1", "src": "g"}),
    "scatter_add": ("f.scatter_add(1, n, g1)", {"self": "f", "index": "n", "src": "g1"}),
    "index_add": ("torch::index_add(f, 0, i1, g)", {"self": "f", "index": "i1", "source": "g"}),
    "index_copy": ("torch::index_copy(f, 0, i1, g)", {"self": "f", "index": "i1", "source": "g"}),
    "take": ("torch::take(f, i1)", {"self": "f", "index": "i1"}),
    "masked_fill": ("f.masked_fill(t1, 0.0)", {"self": "f", "mask": "t1"}),
    "masked_select": ("torch::masked_select(f, t1)", {"self": "f", "mask": "t1"}),
    "masked_scatter": ("f.masked_scatter(t1, g)", {"self": "f", "mask": "t1", "source": "g"}),
    "embedding": ("torch::embedding(f, i1)", {"weight": "f", "indices": "i1"}),
    "bucketize": ("torch::bucketize(f, v1)", {"self": "f", "boundaries": "v1"}),
    "searchsorted": ("torch::searchsorted(v, v1)", {"sorted_sequence": "v", "self": "v1"}),
    "layer_norm": ("torch::layer_norm(f, {4}, v1, v)", {"input": "f", "weight": "v1", "bias": "v"}),
    "batch_norm": ("torch::batch_norm(q, c1, c, {}, {}, true, 0.1, 1e-5, false)", {"input": "q", "weight": "c1", "bias": "c"}),
    "group_norm": ("torch::group_norm(q, 1, c1, c)", {"input": "q", "weight": "c1", "bias": "c"}),
    "prelu": ("torch::prelu(q, c1)", {"self": "q", "weight": "c1"}),
    "conv2d": ("torch::conv2d(q, w1, c)", {"input": "q", "weight": "w1", "bias": "c"}),
    "linear": ("torch::linear(f, g1, v)", {"input": "f", "weight": "g1", "bias": "v"}),
    "mse_loss": ("torch::mse_loss(f, g1)", {"self": "f", "target": "g1"}),
    "l1_loss": ("torch::l1_loss(f, g1)", {"self": "f", "target": "g1"}),
    "huber_loss": ("torch::huber_loss(f, g1)", {"self": "f", "target": "g1"}),
    "binary_cross_entropy": ("torch::binary_cross_entropy(f, g1)", {"self": "f", "target": "g1"}),
    "nll_loss": ("torch::nll_loss(f, i1)", {"self": "f", "target": "i1"}),
    "grid_sampler": ("torch::grid_sampler(q, d1, 0, 0, false)", {"input": "q", "grid": "d1"}),
    "cross": ("torch::cross(x, x1, 1)", {"self": "x", "other": "x1"}),
    "copysign": ("torch::copysign(f, g1)", {"self": "f", "other": "g1"}),
    "stack": ("torch::stack({f, g1})", {"tensors[0]": "f", "tensors[1]": "g1"}),
    "ne": ("f != g1", {"self": "f", "other": "g1"}),
    "logaddexp": ("torch::logaddexp(f, g1)", {"self": "f", "other": "g1"}),
}
TENSORS = {
    "f": "torch::rand({4, 4})", "g": "torch::rand({4, 4})", "m": "torch::rand({4, 4})", "v": "torch::rand({4})", "c": "torch::rand({3})",
    "b": "torch::rand({2, 4, 4})", "q": "torch::rand({2, 3, 8, 8})", "w": "torch::rand({3, 3, 3, 3})", "x": "torch::rand({4, 3})",
    "d": "torch::rand({2, 8, 8, 2})", "i": "torch::randint(0, 4, {4})", "n": "torch::randint(0, 4, {4, 4})", "t": "torch::ones({4, 4}, torch::kBool)",
}


def table() -> str:
    """A function for each operator, on a line of its own."""
    made = "".join(f"static torch::Tensor {name}, {name}1;\n" for name in TENSORS)
    functions = "".join(f"static void call_{n}() {{ {call}; }}  // {name}\n" for n, (name, (call, _)) in enumerate(OPERATORS.items()))
    fill = "".join(f"  {name} = {text}.to(zero); {name}1 = {text}.to(one);\n" for name, text in TENSORS.items())
    calls = "".join(f'  attempt("{name}", call_{n});\n' for n, name in enumerate(OPERATORS))
    return f"""
#include <torch/types.h>
#include <cstdio>
{made}{functions}
static void attempt(const char* name, void (*call)()) {{
  try {{ call(); std::printf("%s: not refused\\n", name); }} catch (const std::exception&) {{ std::printf("%s: refused\\n", name); }}
}}
int main() {{
  const torch::Device zero(torch::kCUDA, 0), one(torch::kCUDA, 1);
{fill}{calls}}}
"""


@pytest.fixture(scope="module")
def operators(tmp_path_factory):
    folder = tmp_path_factory.mktemp("operators")
    outcome = run(build_torch(table(), "-g1", "-O0"), folder=folder, timeout=300)
    return outcome, {name: number for number, name in lines()}


def lines():
    for number, text in enumerate(table().splitlines(), 1):
        if text.startswith("static void call_"):
            yield number, text.rsplit("// ", 1)[1]


def test_sixty_operators(operators):
    """Both operands of at least 95 %: by the schema's names, with dtype, shape, device, where each was made and moved."""
    outcome, line = operators
    assert len(OPERATORS) >= 60
    right, wrong = 0, {}
    refused = [text.split(":")[0] for text in outcome.out.splitlines() if text.endswith(": refused")]
    assert len(refused) >= 60, outcome.out
    for name in refused:
        expected = OPERATORS[name][1]
        found = [finding for finding in outcome.findings if own(finding) and own(finding)[0]["line"] == line[name]]
        # An operator may ask another one, which refuses: mv addmv, embedding index_select. The tensors are the same ones.
        operands = [one for finding in found for one in finding.get("operands", [])]
        two = [one for one in operands if one.get("argument") and any((one["name"] == name or one["argument"] == key) and identified(one, name) for key, name in expected.items())]
        if len(found) == 1 and {one["device"] for one in two} == {"cuda:0", "cuda:1"}:
            right += 1
        else:
            wrong[name] = [(one.get("argument"), one.get("name"), one.get("device")) for one in operands] or [len(found)]
    print(f"{right} of {len(refused)}")
    assert right >= 0.95 * len(refused), f"{right} of {len(refused)}: {wrong}"


def identified(one: dict, name: str) -> bool:
    device = "cuda:1" if name.endswith("1") else "cuda:0"
    return one["device"] == device and bool(one.get("dtype")) and "shape" in one and bool(own(one.get("moved") or one.get("created") or {}))


def test_names_are_those_of_the_line(operators):
    outcome, line = operators
    named = all_of = 0
    for finding in outcome.findings:
        call = next((name for name, number in line.items() if own(finding) and own(finding)[0]["line"] == number), None)
        if call is None:
            continue
        for one in finding.get("operands", []):
            expected = OPERATORS[call][1].get(one["argument"])
            if expected and finding["operation"] == "aten::" + call.split()[0]:
                all_of += 1
                named += one["name"] == expected
    assert all_of >= 90 and named == all_of, f"{named} of {all_of}: the schema's argument is the one that the line gives"


MIX = """
#include <torch/types.h>
#include <iostream>
static torch::Tensor mix(const torch::Tensor& left, const torch::Tensor& right) {
  return torch::add(left, right);  // HERE
}
int main() {
  const torch::Device device(torch::kCUDA, 1);
  auto left = torch::ones({3}, torch::Device(torch::kCUDA, 0));  // LEFT
  auto right = torch::ones({3}).to(device);  // RIGHT
  try {
    std::cout << mix(left, right).sum().item<float>() << std::endl;
  } catch (const c10::Error&) {
    std::cout << "refused" << std::endl;
    return 1;
  }
}
"""


def test_what_the_report_says_and_its_fix(tmp_path):
    outcome = run(build_torch(MIX, "-g", "-O1"), folder=tmp_path)
    finding = only(outcome, "refused-op")
    assert outcome.out == "refused\n"
    assert (finding["operation"], finding["overload"]) == ("aten::add", "Tensor")
    left, right = finding["operands"]
    assert (left["name"], left["argument"], left["position"], left["dtype"], left["shape"], left["device"]) == ("left", "self", 0, "float32", [3], "cuda:0")
    assert (right["name"], right["argument"], right["position"], right["device"]) == ("right", "other", 1, "cuda:1")
    assert own(left["created"])[0]["line"] == line_of(MIX, "// LEFT") and "moved" not in left
    assert own(right["moved"])[0]["line"] == line_of(MIX, "// RIGHT") and (right["moved"]["from"], right["moved"]["to"]) == ("cpu", "cuda:1")
    assert own(finding)[0]["line"] == line_of(MIX, "// HERE")
    cause = finding["cause"]
    assert (cause["category"], cause["line"]) == ("operand-not-moved", line_of(MIX, "// HERE"))
    fixed = cause["fix"]
    assert fixed in ("return torch::add(left.to(right.device()), right);  // HERE", "return torch::add(left, right.to(left.device()));  // HERE")
    repaired = MIX.replace("return torch::add(left, right);  // HERE", fixed)
    outcome = run(build_torch(repaired, "-O0"), folder=tmp_path)
    assert (outcome.code, outcome.findings) == (0, []), "the number itself is not computed: there is no Python"


@pytest.mark.slow
def test_without_debug_information(tmp_path):
    program = tmp_path / "program"
    subprocess.run(["strip", "--strip-debug", "-o", program, build_torch(MIX, "-g", "-O1")], check=True)
    finding = only(run(program, folder=tmp_path), "refused-op")
    assert [(one["name"], one["device"]) for one in finding["operands"]] == [("self", "cuda:0"), ("other", "cuda:1")]
    assert own(finding) and all("line" not in frame for frame in own(finding))
    assert own(finding["operands"][0]["created"])[0]["function"] == "main"


NETS = """
#include <torch/script.h>
#include <torch/torch.h>
#include <iostream>
struct Value {
  torch::Tensor t;
  Value operator+(const Value& o) const { return {t + o.t}; }  // PLUS
};
struct Multiply : torch::autograd::Function<Multiply> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, torch::Tensor x, torch::Tensor w) {
    context->save_for_backward({x,
                                w.cpu()});  // SAVED
    return x * w;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context, torch::autograd::tensor_list grads) {
    auto saved = context->get_saved_variables();
    return {grads[0] * saved[1], grads[0]};  // BACKWARD
  }
};
template <class F> void attempt(F&& f) { try { f(); } catch (const std::exception&) { std::cout << "refused" << std::endl; } }
int main() {
  const torch::Device zero("cuda:0"), one("cuda:1");
  Value a{torch::ones({4}, zero)}, b{torch::ones({4}, one)};
  attempt([&] { auto c = a + b; });
  auto x = torch::ones({4}, torch::TensorOptions(zero).requires_grad(true)), w = torch::ones({4}, zero);
  attempt([&] { Multiply::apply(x, w).sum().backward(); });
  torch::nn::Sequential net(torch::nn::Linear(8, 8), torch::nn::ReLU());
  net->to(one);
  auto input = torch::ones({2, 8}).to(zero);  // INPUT
  attempt([&] { net->forward(input); });  // NET
  attempt([&] { a.t.index_put_({torch::tensor({0, 1})}, b.t.slice(0, 0, 2)); });  // INDEX
}
"""


def test_operators_of_classes_autograd_and_modules(tmp_path):
    """A class's own operator+, values in braces (whose line GCC gives as the function's end), a module's forward, an index on the CPU."""
    outcome = run(build_torch(NETS, "-g1", "-O0"), folder=tmp_path)
    assert outcome.out == 4 * "refused\n"
    plus, backward, net, index = outcome.findings
    assert own(plus)[0]["line"] == line_of(NETS, "// PLUS") and [one["name"] for one in plus["operands"]] == ["t", "o.t"]
    assert plus["cause"]["fix"].startswith("Value operator+(const Value& o) const { return {t.to(torch::Device(torch::kCUDA, 1)) + o.t}; }")
    assert own(backward)[0]["line"] == line_of(NETS, "// BACKWARD")
    assert backward["operands"][0]["name"] == "grads[0]" and backward["operands"][1]["name"] == "saved[1]"
    assert own(backward["operands"][1]["moved"])[0]["line"] == line_of(NETS, "// SAVED")
    assert own(net)[0]["line"] == line_of(NETS, "// NET")
    assert (net["cause"]["line"], net["cause"]["fix"]) == (
        line_of(NETS, "// INPUT"), "auto input = torch::ones({2, 8}).to(torch::Device(torch::kCUDA, 1));  // INPUT")
    assert own(index)[0]["line"] == line_of(NETS, "// INDEX")
    assert "b.t.slice(0, 0, 2).to(torch::Device(torch::kCUDA, 0))" in index["cause"]["fix"]


MODULES = """
struct GateImpl : torch::nn::Module {
  torch::nn::Linear score{nullptr};
  explicit GateImpl(int width) {
    score = register_module("score", torch::nn::Linear(width, width));
  }
  torch::Tensor forward(const torch::Tensor& x) { return torch::sigmoid(score(x)); }
};
TORCH_MODULE(Gate);

class EncoderImpl : public torch::nn::Module {
 public:
  explicit EncoderImpl(int width) {
    in_ = register_module("in", torch::nn::Linear(width, width));
    gate_ = Gate(width);  // GATE
  }
  torch::Tensor forward(torch::Tensor x) {
    x = in_(x);
    return x * gate_(x);
  }

 private:
  torch::nn::Linear in_{nullptr};
  Gate gate_{nullptr};
};
TORCH_MODULE(Encoder);

struct ScaleImpl : torch::nn::Module {
  torch::Tensor mean, factor, kept;
  explicit ScaleImpl(int width) {
    mean = torch::zeros({width});  // MEAN
    factor = register_parameter("factor", torch::ones({width}));


    kept = torch::ones({width});
    register_buffer("kept", kept);
  }
  torch::Tensor forward(torch::Tensor x) { return x.sub(mean).mul(factor).mul(kept); }
};
TORCH_MODULE(Scale);
"""
REGISTERED = {"GATE": 'gate_ = register_module("gate", Gate(width));  // GATE', "MEAN": 'mean = register_buffer("mean", torch::zeros({width}));  // MEAN'}


def with_and_without_registration() -> str:
    """The modules twice: as their user wrote them, and with the lines that the report gives."""
    lines = MODULES.splitlines()
    right = [next((fix.replace("// " + mark, "") for mark, fix in REGISTERED.items() if "// " + mark in line), line) for line in lines]
    spaces = "".join(f"namespace {name} {{\n{text}\n}}\n" for name, text in (("wrong", MODULES), ("right", "\n".join(right))))
    return f"""#include <torch/torch.h>
{spaces}
template <class Module>
void attempt(Module module) {{
  try {{
    module->to(torch::kCUDA);
    module->forward(torch::ones({{4, 8}}, torch::kCUDA));
    std::cout << "ran\\n";
  }} catch (const std::exception&) {{
  }}
}}
int main() {{
  attempt(wrong::Encoder(8));
  attempt(wrong::Scale(8));
  attempt(right::Encoder(8));
  attempt(right::Scale(8));
}}
"""


def test_what_a_constructor_does_not_register(tmp_path):
    source = with_and_without_registration()
    outcome = run(build_torch(source, "-g1", "-O0"), folder=tmp_path)
    assert outcome.out == "ran\nran\n", "the fixes are right"
    assert [finding["operation"] for finding in outcome.findings] == ["aten::addmm", "aten::sub"], outcome.err
    for finding, (mark, fix) in zip(outcome.findings, REGISTERED.items(), strict=True):
        cause = finding["cause"]
        assert (cause["category"], cause["confidence"], cause["repairs"], cause["fix"]) == ("state-not-registered", "medium", "cause", fix)
        assert cause["line"] == line_of(source, f"// {mark}")
    made = own(next(one for one in outcome.findings[0]["operands"] if one["device"] == "cpu")["created"])
    assert [frame["function"].split("(")[0] for frame in made] == ["wrong::GateImpl::GateImpl", "wrong::EncoderImpl::EncoderImpl", "main"], (
        "TORCH_MODULE's inherited constructor is no line of anybody's")
