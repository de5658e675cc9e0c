"""Every device error has one finding before it is raised, whoever raises it: C++ without c10::Error, PyTorch's Python, a library's. The report
exists before the exception does: seen from inside `except`, and after a SIGKILL there."""

import json

import pytest
from conftest import findings_of, start_snippets
from nightly import first

# name: (a function's body, how the operation is called, the devices, names of operands)
RAISED = {
    "to numpy": ("a.numpy()", "torch.Tensor.numpy", ["cuda:0", "cpu"], ["a"]),
    "asarray": ("np.asarray(a)", "torch.Tensor.numpy", ["cuda:0", "cpu"], ["a"]),
    "vstack of a list": ("rows = [a, a]\nnp.vstack(rows)", "torch.Tensor.numpy", ["cuda:0", "cpu"], ["rows[0]"]),
    "numpy of a meta tensor": ("m = torch.ones(3, device='meta')\nm.numpy()", "torch.Tensor.numpy", ["meta", "cpu"], ["m"]),
    "pin memory": ("a.pin_memory()", "aten::_pin_memory", ["cuda:0", "cpu"], ["a"]),
    "pin memory of a storage": ("a.untyped_storage().pin_memory()", "torch.UntypedStorage.pin_memory", ["cuda:0", "cpu"], []),
    "set": ("c.set_(a)", "aten::set_", ["cuda:0", "cpu"], ["a", "c"]),
    "module on meta": ("torch.nn.Linear(2, 2, device='meta').to('cuda:0')", "aten::copy_", ["meta", "cuda:0"], ["weight"]),
    "item of a meta tensor": ("m = torch.ones((), device='meta')\nm.item()", "torch.Tensor.item", ["meta"], ["m"]),
    "meta and another": ("m = torch.ones(3, device='meta')\nm + a", "aten::add", ["cuda:0", "meta"], ["a", "m"]),
    "dlpack": ("torch.from_dlpack(b)", "torch.Tensor.__dlpack__", ["cuda:1", "cuda:0"], ["b"]),
    "no such device": ("torch.ones(3, device='cuda:7')", "aten::empty", ["cuda:7"], []),
    "no such device to set": ("torch.cuda.set_device(7)", "torch.cuda.set_device", ["cuda:7"], []),
    "no such device to ask for": ("torch.cuda.get_device_properties(7)", "torch.cuda.get_device_properties", ["cuda:7"], []),
    "no such device of what was told before": (
        "import functools\ndef opened(device): return functools.partial(torch.ones, 3, device=device)()\nopened('cuda:7')", "aten::empty", ["cuda:7"], []),
    "no such device of tensors in a file": (
        "from safetensors.torch import load_file, save_file\nsave_file({'weight': c}, 'one.safetensors')\nload_file('one.safetensors', device='cuda:7')", "aten::empty_strided", ["cuda:7"], []),
    "window": ("torch.stft(torch.ones(400, device='cuda:0'), 64, window=torch.hann_window(64), return_complex=True)", "aten::stft", ["cuda:0", "cpu"], ["window"]),
    "hidden state": ("r = torch.nn.LSTM(3, 3).to('cuda:0')\nh = torch.zeros(1, 1, 3)\nr(a.view(1, 1, 3), (h, h))", "aten::lstm", ["cuda:0", "cpu"], ["input", "hx[0]"]),
    "generator of a loader": (
        "from torch.utils import data\ng = torch.Generator(device='cuda:0')\nlist(data.DataLoader(data.TensorDataset(c), shuffle=True, generator=g))",
        "aten::random_", ["cuda:0", "cpu"], ["loader.generator"]),
    "metric": ("import torchmetrics\nm = torchmetrics.MeanSquaredError()\nm.update(a, a)", "aten::add_", ["cpu", "cuda:0"], ["self.sum_squared_error"]),
    "scikit learn": ("from sklearn.linear_model import LinearRegression\nLinearRegression().fit(a.view(3, 1), c)", "torch.Tensor.numpy", ["cuda:0", "cpu"], ["array"]),
    "noise of a scheduler": (
        "import diffusers\ns = diffusers.DDIMScheduler()\ns.set_timesteps(5, device='cuda:1')\nx = torch.ones(1, 3, device='cuda:1')\ns.add_noise(x, torch.ones(1, 3), s.timesteps[:1])",
        "aten::mul", ["cuda:1", "cpu"], ["noise"]),
    "logits processor": ("import transformers\np = transformers.RepetitionPenaltyLogitsProcessor(1.2)\np(torch.tensor([[1, 2]]), a.view(1, 3))", "aten::gather", ["cuda:0", "cpu"], ["scores", "input_ids"]),
    "elapsed time": (
        "s, e = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)\ns.record()\n"
        "with torch.cuda.device(1): e.record()\ns.elapsed_time(e)",
        "torch.cuda.Event.elapsed_time", ["cuda:0", "cuda:1"], [],
    ),
    "gradient of another device": ("p = torch.nn.Parameter(a)\np.grad = torch.ones(3, device='cuda:1')", "torch.Tensor.grad", ["cuda:0", "cuda:1"], ["p"]),
    "storage to share": ("a.untyped_storage()._share_fd_cpu_()", "torch.UntypedStorage._share_fd_cpu_", ["cuda:0", "cpu"], []),
    "event": ("e = torch.cuda.Event()\ne.record(torch.cuda.current_stream(0))\ne.record(torch.cuda.Stream(device=1))", "torch.cuda.Event.record", ["cuda:0", "cuda:1"], []),
    "out": ("torch.arange(3, device='cuda:0', out=c)", "torch.arange", ["cpu", "cuda:0"], ["c"]),
    "refs": ("torch._refs.add(a, b)", "torch._refs.add", ["cuda:0", "cuda:1"], ["a", "b"]),
    "refs copy": ("torch._refs.copy_to(a, b, allow_cross_device=False)", "torch._refs.copy_to", ["cuda:0", "cuda:1"], ["a", "b"]),
    "packed hidden state": (
        "r = torch.nn.LSTM(3, 3).to('cuda:0')\nh = torch.zeros(1, 2, 3)\nrows = torch.nn.utils.rnn.pack_sequence([torch.ones(2, 3), torch.ones(1, 3)]).to('cuda:0')\nr(rows, (h, h))",
        "aten::mm", ["cuda:0", "cpu"], ["rows", "hx[0]", "weight_hh_l0"],
    ),
    "several without a kernel": ("torch.histogram(a, b)", "aten::histogram", ["cuda:0", "cuda:1", "cpu"], ["a", "b"]),
    "pack": ("n = torch.tensor([2, 2], device='cuda:0')\ntorch.nn.utils.rnn.pack_padded_sequence(torch.ones(2, 2, 2, device='cuda:0'), n)", "aten::_pack_padded_sequence", ["cuda:0", "cpu"], ["lengths"]),
    "packed sequence": ("n = torch.tensor([2], device='cuda:0')\ntorch.nn.utils.rnn.PackedSequence(torch.ones(2, 2), n)", "torch.nn.utils.rnn.PackedSequence", ["cuda:0", "cpu"], ["n"]),
    "data parallel": ("m = torch.nn.DataParallel(torch.nn.Linear(2, 2).to('cuda:1'))\nm(torch.ones(2, 2))", "torch.nn.DataParallel", ["cuda:1", "cuda:0"], ["module.weight"]),
    "gather": ("torch.nn.parallel.gather([c, c], 0)", "torch.nn.parallel.gather", ["cpu", "cuda:0"], ["c"]),
    "gradient": ("(a.requires_grad_() * 2).backward(c)", "torch.Tensor.backward", ["cpu", "cuda:0"], []),
    "two parameters": ("torch.nn.utils.parameters_to_vector([torch.nn.Parameter(a), torch.nn.Parameter(b)])", "torch.nn.utils.parameters_to_vector", ["cuda:0", "cuda:1"], ["parameters[0]", "parameters[1]"]),
    # As PyTorch 2.15 has it: what stands in front of a decorated function is called as its decorator.
    "behind a decorator": (
        "from torch.utils._foreach_utils import _group_tensors_by_device_and_dtype as grouped\n"
        "grouped.__code__ = grouped.__code__.replace(co_name='no_grad', **({'co_qualname': 'no_grad'} if hasattr(grouped.__code__, 'co_qualname') else {}))\n"
        "grouped([[a, a], [a, b]])",
        "torch.utils._foreach_utils._group_tensors_by_device_and_dtype", ["cuda:0", "cuda:1"], ["a", "b"],
    ),
    "in other words": ("try:\n    a + b\nexcept RuntimeError as error:\n    raise ValueError('left is on cuda:0 and right on cuda:1', a, b) from error", "aten::add", ["cuda:0", "cuda:1"], ["a", "b"]),
    "no kernel": ("a.to_mkldnn()", "aten::to_mkldnn", ["cuda:0", "cpu"], ["a"]),
    "kernel in Python": ("l = torch.nn.Linear(3, 2, device='meta')\nl(a)", "aten::addmm", ["meta", "cuda:0"], ["weight"]),
    "class of CUDA": ("torch.cuda.FloatStorage.from_buffer(b'12345678', 'little')", "torch.cuda.FloatStorage.from_buffer", ["cuda:0", "cpu"], []),
    "numbers of a device map": ("from accelerate import dispatch_model\nm = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))\ndispatch_model(m, device_map={'0': 0})", "accelerate.dispatch_model", ["cpu", "cuda:0"], []),
}

START = """
import numpy as np
import torch
a, b, c = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1"), torch.ones(3)
def {function}():
{body}
try:
    {function}()
    print("nothing raised")
except Exception as error:
    print(type(error).__name__)
"""


def program(name, body):
    return START.format(function="run_" + name.replace(" ", "_"), body="".join(f"    {line}\n" for line in body.split("\n")))


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    snippets = {name: program(name, row[0]) for name, row in RAISED.items()}
    return start_snippets(snippets, tmp_path_factory.mktemp("raised"), options="text=0:html=0")


@pytest.mark.parametrize("name", RAISED)
def test_one_finding_with_operation_and_devices(outcome, name):
    run, printed = outcome
    assert run.code == 0, run.err
    assert printed[name].strip().endswith(("Error", "AcceleratorError")), printed[name]
    findings = findings_of(run, name)
    assert len(findings) == 1, [finding["message"] for finding in findings]
    finding, (_, operation, devices, operands) = findings[0], RAISED[name]
    assert (finding["kind"], finding["operation"]) == ("refused-op", operation)
    assert sorted(finding["devices"]) == sorted(devices)
    assert set(operands) <= {one.get("name") for one in finding.get("operands", [])} | {
        name["name"] for one in finding.get("operands", []) for name in one.get("names", [])
    }


def test_no_finding_but_these(outcome):
    assert len(outcome[0].findings) == len(RAISED), [finding["message"] for finding in outcome[0].findings]


def test_torch_load_for_a_device_that_is_not_there(rehearse):
    source = """
        import io, torch
        from torch import serialization
        file = io.BytesIO()
        torch.save(torch.ones(3, device="cuda:1"), file)
        file.seek(0)
        torch.cuda.device_count = lambda: 1
        torch.cuda._device_count_nvml = lambda: 1
        try:
            torch.load(file)
        except RuntimeError as error:
            print(str(error)[:60])
    """
    outcome = rehearse(source)
    assert outcome.out.startswith("Attempting to deserialize object on CUDA device 1"), outcome.err
    assert outcome.finding["operation"] == "torch.load"
    assert outcome.finding["devices"] == ["cuda:1"]


def test_it_is_told_before_it_is_raised(rehearse):
    source = """
        import os, torch
        def told():
            return os.path.exists(f"devtrace-{os.getpid()}.jsonl") and "torch.nn.DataParallel" in open(f"devtrace-{os.getpid()}.jsonl").read()
        model = torch.nn.DataParallel(torch.nn.Linear(2, 2).to("cuda:1"))
        try:
            model(torch.ones(2, 2))
        except RuntimeError:
            print(told())
    """
    assert rehearse(source).out == "True\n"


WRAPPED = """
import copy, pickle, torch
a, b = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
class Mixes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
    def forward(self, x):
        return x + self.weight + b.to("cuda:0" if x.device.index else "cuda:1")
class Own(ValueError):
    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
def replicas():
    torch.nn.DataParallel(Mixes().to("cuda:0"))(torch.ones(2, 3, device="cuda:0"))
def wrapped(call):
    try:
        call()
    except Exception as error:
        raise Own(3, f"the step failed: {error}") from error
def again(call):
    try:
        call()
    except Exception as error:
        raise RuntimeError(str(error))
def in_another_thread(call):
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor() as pool:
        pool.submit(call).result()
def copied(call):
    try:
        call()
    except Exception as error:
        raise pickle.loads(pickle.dumps(error))
refuse = lambda: torch._refs.add(a, b)
for call in ({call},):
    try:
        call()
        print("nothing raised")
    except Exception as error:
        print(type(error).__name__)
"""


@pytest.mark.parametrize(
    "call",
    ["replicas", "lambda: wrapped(refuse)", "lambda: again(refuse)", "lambda: in_another_thread(refuse)", "lambda: copied(refuse)",
     "lambda: wrapped(lambda: again(lambda: a + b))", "lambda: wrapped(a.numpy)"],
)
def test_however_many_layers_raise_it_again_it_is_one(rehearse, call):
    outcome = rehearse(WRAPPED.replace("{call}", call), options="text=0:dedupe=0")
    assert "nothing" not in outcome.out and outcome.code == 0, outcome.err
    assert len(outcome.findings) == (2 if call == "replicas" else 1), [finding["message"] for finding in outcome.findings]


NONE = """
import torch
a, b = torch.ones(3, device="cuda:0"), torch.ones(3, device="cuda:1")
def words(text, kind=ValueError):
    try:
        raise kind(text)
    except kind:
        pass
words("no device is called cuda:0, and none is called cuda:1 either")
words("Expected all tensors to be on the same device, but found cuda:0 and cuda:1")
words("Could not open the device /dev/cuda:0 for cpu: permission denied", OSError)
words("the key cuda:1 is not in the device map of cuda:0", KeyError)
words(b"cuda:0 and cuda:1 as bytes, on the same device")
words("\\ud800 cuda:0 is not on the same device as cuda:1")
for text in (1, None, object(), ("device cuda:0", "device cuda:1")):
    words(text)
ValueError()
getattr(a, "cuda_device_of_this_tensor", None)
hasattr(a, "device cuda:0 and cuda:1 on the same device")
torch.utils._pytree.tree_map(lambda x: x, {"device": a})
print("ran")
"""


CATALOGUED = """
import torch
def program():
    raise ValueError("Expected a cuda device, but got: cpu")
for call in (program, lambda: torch.cuda.synchronize("cpu")):
    try:
        call()
    except ValueError:
        print("raised")
"""


def test_a_message_of_the_catalogue_is_one_where_a_library_raises_it(rehearse):
    outcome = rehearse(CATALOGUED)
    assert outcome.out == "raised\nraised\n", outcome.err
    finding = outcome.finding
    assert finding["operation"] == "torch.cuda.synchronize"
    assert finding["message"] == "Expected a cuda device, but got: cpu"


# A text that was found ordinary is known by its place and its hash: another may come to lie there.
SAME_PLACE = """
import os, torch
library = {}
exec(compile("def synchronize(text): raise ValueError(text)", os.path.join(os.path.dirname(torch.__file__), "cuda", "__init__.py"), "exec"), library)
def raised(text):
    hash(text)
    try:
        library["synchronize"](text)
    except ValueError:
        pass
    return id(text)
message = b"Expected a cuda device, but got: cpu"
def program():
    for _ in range(100):
        ordinary = [raised(text) for text in (b"x" * len(message), b"x" * len(message)) for text in [text.decode()]]
        if raised(message.decode()) in ordinary:
            return print("at the same place")
program()
"""


def test_another_text_at_the_same_place_is_looked_at(rehearse):
    outcome = rehearse(SAME_PLACE)
    assert outcome.out == "at the same place\n", outcome.err
    assert outcome.finding["message"] == "Expected a cuda device, but got: cpu"


def test_words_alone_are_no_finding(rehearse):
    outcome = rehearse(NONE)
    assert (outcome.code, outcome.out) == (0, "ran\n"), outcome.err
    assert outcome.findings == [] and "devtrace" not in outcome.err


@pytest.mark.parametrize("library", first(2, ["torch", "transformers", "torch._dynamo, torch._inductor.compile_fx, torch._refs, torch.distributed", "diffusers", "lightning", "accelerate"]))
def test_an_import_makes_no_finding(rehearse, library):
    if "." not in library:
        pytest.importorskip(library)
    outcome = rehearse(f"import torch\nimport {library}\ntorch.ones(1, device='cuda:0')\nprint('ran')\n")
    assert (outcome.code, outcome.out) == (0, "ran\n"), outcome.err
    assert outcome.findings == []


def test_classes_of_exceptions_work_as_before(rehearse):
    """Made before and after PyTorch was imported, with arguments of their own, by __new__ of another class, copied."""
    source = """
        import copy, pickle
        class Before(RuntimeError):
            def __init__(self, code):
                super().__init__(f"code {code}")
                self.code = code
        class New(ValueError):
            def __new__(cls, *arguments):
                return super().__new__(cls, *arguments)
        import torch
        class After(Before, KeyError):
            pass
        class Both(New, TypeError):
            pass
        assert str(Before(3)) == "code 3" and Before(3).args == ("code 3",)
        assert After(4).code == 4 and isinstance(After(4), KeyError)
        assert Both("x", 1).args == ("x", 1) and New("y").args == ("y",)
        assert BaseException.__new__(After, "z").args == ("z",) and Exception.__new__(KeyError).args == ()
        assert isinstance(OSError(2, "cuda:0 is no such file or device"), FileNotFoundError)
        assert pickle.loads(pickle.dumps(ValueError("a", 1))).args == ("a", 1)
        assert copy.copy(KeyError("k")).args == ("k",)
        for wrong in (lambda: RuntimeError(keyword=1), lambda: object.__new__(ValueError), lambda: BaseException.__new__(OSError)):
            try:
                wrong()
            except TypeError as error:
                continue
            raise SystemExit("no TypeError")
        try:
            raise ExceptionGroup("cuda:0 and cuda:1 are two devices", [ValueError(1)])
        except* ValueError:
            print("ran")
    """
    traced = rehearse(source)
    assert (traced.code, traced.out) == (0, "ran\n"), traced.err


def test_what_a_tool_swallows_by_design_is_a_note(rehearse):
    """The standard library's reprlib shows an object whose repr raises as one that has none."""
    source = """
        import reprlib, numpy as np, torch
        class Shown:
            def __init__(self, values): self.values = values
            def __repr__(self): return str(np.asarray(self.values))
        assert "Shown instance" in reprlib.repr(Shown(torch.ones(3, device="cuda:0")))
    """
    outcome = rehearse(source, options="error_exitcode=23")
    assert outcome.code == 0, outcome.err
    assert (outcome.finding["severity"], outcome.finding["operation"]) == ("note", "torch.Tensor.numpy")
    assert "shows values" in outcome.finding["note"]


def test_the_lengths_of_a_packed_sequence_are_where_they_belong(outcome):
    (finding,) = findings_of(outcome[0], "packed hidden state")
    assert not any("batch_sizes" in name["name"] for one in finding["operands"] for name in one.get("names", []))
    assert finding["cause"]["because"].startswith("h (cpu") and "value.to" not in finding["cause"]["fix"]


REFUSE = """
    import glob, json, os, signal, sys
    import torch

    left = torch.ones(3, device="cuda:0")
    right = torch.ones(3, device="cuda:1")
    try:
        left + right
    except RuntimeError as error:
        {inside}
"""


def test_everything_is_there_inside_except(rehearse):
    inside = """
        stem = f"devtrace-{os.getpid()}"
        lines = [json.loads(line) for line in open(stem + ".jsonl")]
        print("EXCEPT", file=sys.stderr, flush=True)
        print(json.dumps({"kinds": [line["record"] for line in lines], "html": os.path.getsize(stem + ".html"), "error": str(error)}))
    """
    outcome = rehearse(REFUSE.replace("{inside}", inside.strip()))
    assert outcome.code == 0, outcome.err
    seen = json.loads(outcome.out)
    assert seen["kinds"] == ["process", "finding"]
    assert seen["html"] > 1000
    assert "cuda:0" in seen["error"] and "cuda:1" in seen["error"]
    before, _, after = outcome.err.partition("EXCEPT")
    assert "cuda:0" in before and "cuda:1" in before and "program.py" in before
    assert "cuda:1" not in after
    assert outcome.finding["message"] == seen["error"].splitlines()[0]
    assert [record["record"] for record in outcome.records if record["record"] != "memory"] == ["process", "finding", "end"]


def test_survives_sigkill_inside_except(rehearse):
    outcome = rehearse(REFUSE.replace("{inside}", "os.kill(os.getpid(), signal.SIGKILL)"))
    assert outcome.code == 128 + 9
    assert outcome.finding["operation"] == "aten::add"
    assert [record["record"] for record in outcome.records] == ["process", "finding"]
    page = outcome.pages[0].read_text()  # only ever appended to, so it has no closing tag that a kill could take
    assert "aten::add" in page and "program.py" in page and outcome.finding["fingerprint"] in page
    assert "cuda:1" in outcome.err


def test_an_uncaught_refusal_keeps_traceback_and_exit_code(rehearse):
    source = """
        import torch
        torch.ones(3, device="cuda:0") + torch.ones(3, device="cuda:1")
    """
    traced = rehearse(source)
    plain = rehearse(source, trace=False)
    assert traced.code == plain.code == 1
    assert plain.err.strip().endswith(traced.findings[0]["message"])
    assert traced.err.strip().endswith(plain.err.strip().splitlines()[-1])
