"""LibTorch programs: what C++ knows of a refused operation's operands, and the line that brings them together."""

import subprocess

import pytest
from conftest import only
from cpp_programs import build_torch, line_of, own, run
from libtorch_operators import OPERATORS

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
