"""Where the program's models lie: what the log says of whole programs, and what devtrace check makes of two nights of real logs."""

import json
import signal
import subprocess
import textwrap

import pytest
from conftest import BUILD, DEVTRACE, LIBRARY, environment, execute, start
from interpreters import READABLE
from pages import browser, page, render  # noqa: F401
from selenium.webdriver.support.ui import WebDriverWait

NET = """
import os, signal, sys, threading, time
import torch

class Net(torch.nn.Module):
    def __init__(self, layers=4):
        super().__init__()
        self.embed = torch.nn.Embedding(100, 16)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(16, 16) for _ in range(layers))
        self.head = torch.nn.Linear(16, 100, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("mask", torch.ones(4, 4))
        self.register_buffer("steps", torch.zeros(1, dtype=torch.int64), persistent=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x).relu() + self.mask.sum()
        return self.head(x)

def run(model, device, times=8):
    for _ in range(times):
        out = model(torch.zeros(2, dtype=torch.long, device=device))
    return out

def log():
    path = f"devtrace-{os.getpid()}.jsonl"
    return open(path).read() if os.path.exists(path) else ""

def wait_for(text):
    \"\"\"Works until the log says so: a sample is taken when its time has come, not when a test would like it.\"\"\"
    end = time.time() + 60
    while text not in log() and time.time() < end:
        torch.ones(8, device="cuda:0").add(1)
        time.sleep(0.01)
"""

LAYERS = {f"layers.{number}.{what}" for number in range(4) for what in ("weight", "bias")}
PARAMETERS = {"embed.weight", "head.weight"} | LAYERS


def models(outcome):
    """The last record of each root."""
    return list({(record["pid"], record["id"]): record for record in outcome.records if record["record"] == "placement"}.values())


def model(outcome, root="Net"):
    found = [each for each in models(outcome) if each["root"] == root]
    assert len(found) == 1, f"{[each['root'] for each in models(outcome)]}\n{outcome.err[-2000:]}"
    return found[0]


def places(record):
    return {entry["name"]: entry["device"] for entry in record["entries"]}


@pytest.fixture
def program(rehearse):
    """program(source, …): NET, then the source."""

    def run(source, **more):
        return rehearse(NET + textwrap.dedent(source), **more)

    return run


MAIN = """
def main():
    model = Net().to("cuda:1")
    run(model, "cuda:1")
main()
"""


def test_a_model_that_is_gone_at_the_end(program):
    outcome = program(MAIN)
    assert outcome.code == 0, outcome.err
    record = model(outcome)
    assert places(record) == dict.fromkeys(PARAMETERS | {"mask", "steps"}, "cuda:1")
    entries = {entry["name"]: entry for entry in record["entries"]}
    assert {name for name, entry in entries.items() if entry["kind"] == "parameter"} == PARAMETERS
    assert {name for name, entry in entries.items() if entry["kind"] == "buffer"} == {"mask", "steps"}
    assert entries["layers.0.weight"]["bytes"] == 16 * 16 * 4
    assert entries["head.weight"]["same_as"] == "embed.weight", "tied: one tensor under two names"
    assert "same_as" not in entries["embed.weight"]
    assert outcome.records[-1]["record"] == "end" and outcome.findings == []


def test_a_global_model_is_known_as_it_is_at_the_end(program):
    outcome = program("""
        model = Net().to("cuda:0")
        run(model, "cuda:0")
        model.layers[3].cpu()
    """)
    where = places(model(outcome))
    assert where["layers.3.weight"] == where["layers.3.bias"] == "cpu" and where["layers.2.weight"] == "cuda:0"


@pytest.mark.parametrize("end, code", [("os._exit(7)", 7), ("os.kill(os.getpid(), 9)", 128 + signal.SIGKILL)])
def test_a_process_that_ends_without_python(program, end, code):
    outcome = program(f"""
        def main():
            model = Net().to("cuda:0")
            run(model, "cuda:0")
            wait_for('"root":"Net"')
            {end}
        main()
    """)
    assert outcome.code == code
    assert places(model(outcome))["embed.weight"] == "cuda:0"


def test_os_exit_is_looked_at_too(program):
    outcome = program("""
        def main():
            run(Net().to("cuda:0"), "cuda:0")
            late = torch.nn.Bilinear(2, 2, 2).to("cuda:1")
            os._exit(0)
        main()
    """)
    assert set(places(model(outcome, "Bilinear")).values()) == {"cuda:1"}


def test_two_models_of_one_class_are_told_apart(program):
    outcome = program("""
        def main():
            teacher, student = Net().to("cuda:1"), Net().to("cuda:0")
            run(teacher, "cuda:1"), run(student, "cuda:0")
            wait_for('"root":"Net"')
        main()
    """)
    assert {each["variable"]: places(each)["embed.weight"] for each in models(outcome)} == {"teacher": "cuda:1", "student": "cuda:0"}


def test_one_after_the_other_is_one(program):
    outcome = program("""
        def main():
            for number in range(3):
                model = Net().to("cuda:0" if number < 2 else "cuda:1")
                run(model, "cuda:0" if number < 2 else "cuda:1")
                del model
        main()
        model = Net().to("cuda:1")
        run(model, "cuda:1")
    """)
    assert places(model(outcome))["embed.weight"] == "cuda:1"


def test_wrappers_and_parts_are_no_models(program):
    outcome = program("""
        class Wrapper(torch.nn.Module):
            def __init__(self, module):
                super().__init__()
                self.module = module
        class Big(torch.nn.Module):
            def __init__(self, net):
                super().__init__()
                self.net, self.extra = net, torch.nn.Linear(2, 2, device="cuda:0")
        net = Net().to("cuda:1")
        run(net, "cuda:1")
        wait_for('"root":"Net"')
        big = Wrapper(Big(net))
        torch.ones(1, device="cuda:0").add(1)
    """)
    last = {each["root"]: each for each in models(outcome)}
    assert set(last) == {"Net", "Big"}
    assert last["Net"]["entries"] == [] and last["Net"]["part_of"] == "Big"
    assert places(last["Big"])["net.embed.weight"] == "cuda:1" and places(last["Big"])["extra.weight"] == "cuda:0"


def test_caches_and_forgotten_tensors(program):
    outcome = program("""
        class KVCache:
            def __init__(self):
                self.layers = [{"k": torch.zeros(2, device="cuda:1"), "v": torch.zeros(2, device="cuda:0")}]
        class Attention(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.q = torch.nn.Linear(2, 2)
                self.cos = torch.zeros(3)
                self.k_cache = [torch.zeros(4)]
                self.kv = KVCache()
        attention = Attention().to("cuda:0")
        own = KVCache()
        run(Net().to("cuda:0"), "cuda:0")
    """)
    entries = {entry["name"]: (entry["kind"], entry["device"]) for entry in model(outcome, "Attention")["entries"]}
    assert entries == {"q.weight": ("parameter", "cuda:0"), "q.bias": ("parameter", "cuda:0"), "cos": ("attribute", "cpu"), "k_cache.0": ("cache", "cpu"),
                       "kv.layers.0.k": ("cache", "cuda:1"), "kv.layers.0.v": ("cache", "cuda:0")}
    assert places(model(outcome, "KVCache")) == {"layers.0.k": "cuda:1", "layers.0.v": "cuda:0"}


TRANSFORMER = """
from transformers import LlamaConfig, LlamaForCausalLM
from accelerate import dispatch_model
config = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=4, num_attention_heads=2, num_key_value_heads=2, vocab_size=64)
def split(first):
    where = {"model.embed_tokens": 0, "model.rotary_emb": 0, "model.norm": 1, "lm_head": 1}
    return {**where, **{f"model.layers.{number}": 0 if number < first else 1 for number in range(4)}}
def main(first=2, tokens=torch.ones(1, 4, dtype=torch.long)):
    model = dispatch_model(LlamaForCausalLM(config).eval(), split(first))
    with torch.no_grad():
        out = model(tokens.to("cuda:0"), use_cache=True)
        cache = out.past_key_values
        torch.ones(8, device="cuda:0").add(1)
        os._exit(0)
"""


def test_a_device_map_and_its_cache(program):
    outcome = program(TRANSFORMER + "\nmain()\n")
    assert outcome.code == 0, outcome.err
    where = places(model(outcome, "LlamaForCausalLM"))
    assert where["model.layers.1.self_attn.q_proj.weight"] == "cuda:0" and where["model.layers.2.self_attn.q_proj.weight"] == "cuda:1"
    assert where["model.rotary_emb.inv_freq"] == "cuda:0" and where["lm_head.weight"] == "cuda:1"
    cache = model(outcome, "DynamicCache")
    assert {entry["kind"] for entry in cache["entries"]} == {"cache"}
    assert places(cache) == {f"layers.{number}.{what}": f"cuda:{number // 2}" for number in range(4) for what in ("keys", "values")}


def test_what_accelerate_offloads_lies_nowhere(program):
    outcome = program("""
        from accelerate import cpu_offload
        class Scale(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(8))
            def forward(self, x):
                for _ in range(20):
                    x = x * self.weight  # looks come in here, where the weight is on cuda:0
                print(self.weight.device)
                return x
        model = Scale()
        cpu_offload(model, execution_device=torch.device("cuda:0"))
        model(torch.ones(8, device="cuda:0"))
    """)
    assert outcome.code == 0 and outcome.out == "cuda:0\n", outcome.err
    seen = [places(record) for record in outcome.records if record["record"] == "placement" and record["root"] == "Scale"]
    assert seen == [{"weight": "meta"}]


def test_objects_that_nobody_may_touch(program):
    outcome = program("""
        class Proxy:
            @property
            def __class__(self):
                raise SystemExit("touched")
            def __getattribute__(self, name):
                raise SystemExit("touched " + name)
            def __del__(self):
                pass
        class Meta(type):
            def __getattribute__(cls, name):
                if name in ("__qualname__", "__name__", "__torch_dispatch__", "__mro__"):
                    raise SystemExit("touched " + name)
                return super().__getattribute__(name)
        class OddCache(metaclass=Meta):
            pass
        class Sly(torch.nn.Module):
            def __getattr__(self, name):
                raise SystemExit("touched " + name) if armed else AttributeError(name)
        armed = False
        proxies, odd, sly = [Proxy() for _ in range(3)], OddCache(), Sly()
        half = Net.__new__(Net)
        odd.tensor = torch.zeros(2)
        armed = True
        run(Net().to("cuda:0"), "cuda:0")
        wait_for('"root":"Net"')
        armed = False
        print("fine")
    """)
    assert outcome.code == 0 and outcome.out == "fine\n", outcome.err
    assert model(outcome)


def test_tensors_with_a_dispatch_of_their_own_are_not_asked(program):
    outcome = program("""
        from torch.utils._python_dispatch import TorchDispatchMode
        from torch.overrides import TorchFunctionMode
        class Own(torch.Tensor):
            @classmethod
            def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
                raise SystemExit("dispatched")
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                raise SystemExit("asked") if armed else super().__torch_function__(function, types, args, kwargs or {})
        armed = False
        model = Net().to("cuda:0")
        model.own = torch.zeros(2).as_subclass(Own)
        names = []
        class Modes(TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                names.append(function.__name__)
                return function(*args, **(kwargs or {}))
        armed = True
        for _ in range(3):
            run(model, "cuda:0")
        with Modes():
            end = time.time() + 1.5
            while time.time() < end:
                torch.ones(8).add(1)
                time.sleep(0.01)
        print(sorted(set(names)))
    """)
    assert outcome.code == 0, outcome.err
    assert outcome.out == "['add', 'ones']\n"
    record = model(outcome)
    assert record["left_out"] == 1 and "own" not in places(record)


def test_threads_and_forks(program):
    outcome = program("""
        def work(number):
            model = Net().to(f"cuda:{number}")
            for _ in range(10):
                run(model, f"cuda:{number}")
            models.append(model)
        models = []
        threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
        pid = os.fork()
        if pid == 0:
            run(Net(), "cpu")
            os._exit(0)
        os.waitpid(pid, 0)
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        torch.ones(8, device="cuda:0").add(1)
        pid = os.fork()
        if pid == 0:
            sys.exit(3)
        print(os.waitpid(pid, 0)[1] >> 8)
    """)
    assert outcome.code == 0 and outcome.out == "3\n", outcome.err
    assert len(outcome.logs) == 1, "the children use no CUDA"
    found = models(outcome)
    assert {each["root"] for each in found} == {"Net"} and len({each["pid"] for each in found}) == 1
    assert {places(each)["embed.weight"] for each in found} == {"cuda:0", "cuda:1"}


def test_ctrl_c_arrives_as_ever(program):
    outcome = program("""
        signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts the tests in the background has it ignored
        model = Net().to("cuda:0")
        caught = 0
        for _ in range(20):
            try:
                run(model, "cuda:0", 1)
                signal.raise_signal(signal.SIGINT)
                run(model, "cuda:0", 1)
            except KeyboardInterrupt:
                caught += 1
        try:
            raise ValueError("mine")
        except ValueError:
            run(model, "cuda:0")
            print(caught, sys.exc_info()[0].__name__)
    """)
    assert outcome.code == 0 and outcome.out == "20 ValueError\n", outcome.err
    assert model(outcome)


def test_a_program_without_modules_and_one_without_cuda(rehearse, tmp_path):
    outcome = rehearse("""
        import torch
        for _ in range(30):
            torch.ones(3, device="cuda:0").add(1)
    """)
    assert outcome.code == 0 and len(outcome.logs) == 1 and models(outcome) == []
    (tmp_path / "second").mkdir()
    outcome = start(NET + "run(Net(), 'cpu')\n", tmp_path / "second")
    assert outcome.code == 0 and outcome.files == []


def test_can_be_switched_off(program):
    outcome = program(MAIN, options="placement=0")
    assert outcome.code == 0 and len(outcome.logs) == 1 and models(outcome) == []


def test_what_does_not_change_is_written_once(program):
    outcome = program("""
        model = Net().to("cuda:0")
        end = time.time() + 5
        while time.time() < end:
            run(model, "cuda:0")
            time.sleep(0.01)
    """)
    assert len([record for record in outcome.records if record["record"] == "placement"]) == 1


# ---- devtrace check on real logs -----------------------------------------------------------------------------------------------------


def judge(folder, *arguments):
    return subprocess.run([DEVTRACE, "check", *map(str, arguments)], cwd=folder, capture_output=True, text=True)


@pytest.fixture
def night(tmp_path):
    """night(name, source, …): the logs of a run in a folder of its own."""

    def run(name, source, **more):
        folder = tmp_path / name
        folder.mkdir()
        outcome = start(NET + textwrap.dedent(source), folder, **more)
        assert outcome.code == 0, outcome.err
        return outcome

    return run


def test_a_model_that_moved_between_two_nights(night, tmp_path):
    night("one", TRANSFORMER + "\nmain(2)\n")
    assert judge(tmp_path, "--baseline", "known.json", "--update-baseline", "one").returncode == 0
    known = json.loads((tmp_path / "known.json").read_text())["placement"]
    assert known["LlamaForCausalLM"]["model.layers.1.mlp.up_proj.weight"] == "cuda:0"
    gate = ["--baseline", "known.json", "--fail-on-placement"]
    done = judge(tmp_path, *gate, "one")
    assert done.returncode == 0 and "moved" not in done.stdout, done.stdout
    night("two", TRANSFORMER + "\nmain(1)\n")
    done = judge(tmp_path, *gate, "--junit", "j.xml", "--markdown", "m.md", "two")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "moved LlamaForCausalLM model.layers.1 (9 tensors): on cuda:1, was on cuda:0" in done.stdout
    assert "moved DynamicCache layers.1 (2 tensors): on cuda:1, was on cuda:0" in done.stdout
    assert "11 tensors moved to another device" in done.stdout
    assert "model.layers.1 (9 tensors)" in (tmp_path / "j.xml").read_text() and "**moved** `LlamaForCausalLM model.layers.1" in (tmp_path / "m.md").read_text()
    done = judge(tmp_path, "--baseline", "known.json", "two")
    assert done.returncode == 0 and "moved LlamaForCausalLM" in done.stdout, "told, and fails nothing"
    assert judge(tmp_path, "--baseline", "known.json", "--update-baseline", "two").returncode == 0
    assert judge(tmp_path, *gate, "two").returncode == 0


def test_other_devices_in_the_same_places_are_the_same(night, tmp_path):
    source = """
        def main(a, b):
            net, other = Net().to(a), torch.nn.Linear(5, 5).to(b)
            run(net, a), other(torch.ones(5, device=b))
            os._exit(0)
        main("cuda:{}", "cuda:{}")
    """
    night("one", source.format(0, 1))
    assert judge(tmp_path, "--baseline", "known.json", "--update-baseline", "one").returncode == 0
    night("two", source.format(3, 2), gpus=4)
    gate = ["--baseline", "known.json", "--fail-on-placement"]
    assert judge(tmp_path, *gate, "two").returncode == 0
    night("three", source.format(2, 2), gpus=4)
    done = judge(tmp_path, *gate, "three")
    assert done.returncode == 1 and "moved Linear all of it (2 tensors): on cuda:0, was on cuda:1" in done.stdout, done.stdout


def test_ranks_each_on_a_device_of_their_own(night, tmp_path):
    source = 'model = Net().to(f"cuda:{%s}")\nrun(model, f"cuda:{%s}")\n'

    def job(name, device, ranks):
        for rank in range(ranks):
            night(f"{name}{rank}", source % (device, device), env={"LOCAL_RANK": str(rank), "RANK": str(rank), "WORLD_SIZE": str(ranks)})
        return [f"{name}{rank}" for rank in range(ranks)]

    own = "int(os.environ['LOCAL_RANK'])"
    assert judge(tmp_path, "--baseline", "known.json", "--update-baseline", *job("one", own, 2)).returncode == 0
    assert json.loads((tmp_path / "known.json").read_text())["placement"]["Net"]["embed.weight"] == "cuda:LOCAL_RANK"
    gate = ["--baseline", "known.json", "--fail-on-placement"]
    assert judge(tmp_path, *gate, "one0").returncode == 0, "fewer ranks"
    done = judge(tmp_path, *gate, *job("two", "0", 2))
    assert done.returncode == 1 and "moved Net all of it (12 tensors): on cuda:0 and cuda:LOCAL_RANK, was on cuda:LOCAL_RANK" in done.stdout, done.stdout


# ---- other Pythons -------------------------------------------------------------------------------------------------------------------

# PyTorch as far as it is asked: there is one Python here that has the real one.
PRETENDED = """
import atexit, gc, sys, types
class TensorBase:
    def __init__(self, device):
        self.where = device
    device = property(lambda self: self.where)
    def numel(self):
        return 3
    def element_size(self):
        return 4
class Tensor(TensorBase):
    __torch_dispatch__ = None
class Parameter(Tensor):
    pass
class Module:
    def __init__(self, **state):
        self._parameters, self._buffers, self._modules = state, {}, {}
class DisableTorchFunction:
    def __enter__(self):
        return self
    def __exit__(self, *what):
        pass
for name in ("_C", "nn"):
    sys.modules["torch." + name] = globals()[name] = types.ModuleType("torch." + name)
_C.TensorBase, _C.DisableTorchFunction = TensorBase, DisableTorchFunction
nn.Module, nn.Parameter = Module, Parameter
"""

LOADED = """
import atexit, ctypes, gc, os, sys, time
import torch
cuda, address = ctypes.CDLL("libcudart.so.13"), ctypes.c_void_p()
assert cuda.cudaMalloc(ctypes.byref(address), 1024) == 0
host = ctypes.create_string_buffer(1024)
class Net(torch.Module):
    def __del__(self):
        print("deleted", gc.isenabled())
def main():
    net = Net(weight=torch.Parameter("cuda:0"))
    net._modules["inner"] = torch.Module(bias=torch.Parameter("cpu"))
    net.loop = net
    end = time.time() + 2.5
    while time.time() < end:
        cuda.cudaMemcpy(address, host, ctypes.c_size_t(1024), 1)
        time.sleep(0.01)
    try:
        raise KeyError(1)
    except KeyError:
        cuda.cudaMemcpy(address, host, ctypes.c_size_t(1024), 1)
main()
gc.collect()
late = Net(weight=torch.Parameter("cuda:1"))
cuda.cudaMemcpy(address, host, ctypes.c_size_t(1024), 1)
"""


@pytest.mark.parametrize("python", [pytest.param(path, id=f"3.{minor}-{index}") for index, (minor, path) in enumerate(READABLE)])
def test_in_every_python(python, tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(PRETENDED)
    (tmp_path / "program.py").write_text(LOADED)
    simulated = [BUILD / "simulate" / name for name in ("libcudart.so.13", "libcuda.so.1")]
    outcome = execute([python, "program.py"], tmp_path, environment(None, {"LD_PRELOAD": ":".join(map(str, [LIBRARY, *simulated]))}))
    assert outcome.code == 0 and outcome.out == "deleted True\ndeleted True\n", outcome.err
    records = [record for record in outcome.records if record["record"] == "placement"]
    assert [places(record) for record in records] == [{"weight": "cuda:0", "inner.bias": "cpu"}, {"weight": "cuda:1"}], "one, and at the end the other"
    assert {record["id"] for record in records} == {1} and records[0]["entries"][0]["bytes"] == 12


# ---- the page ------------------------------------------------------------------------------------------------------------------------


def test_the_page_shows_where_the_model_lives(night, page, tmp_path):  # noqa: F811
    outcome = night("one", TRANSFORMER + "\nmain(2)\n")
    page.open(render(outcome.logs[0], tmp_path))
    section = page.run("return [...document.querySelectorAll('section.part')].find((each) => each.querySelector('h2').textContent === 'Where the model lives').innerText")
    assert "LlamaForCausalLM" in section and "DynamicCache" in section
    rows = page.run("return [...document.querySelector('table.placement').querySelectorAll('tbody tr')].map((row) => row.cells[0].innerText.trim() + ': ' + row.cells[3].innerText)")
    assert rows[0].startswith("cuda:0: ") and "model.layers.0-1" in rows[0] and "model.layers.2-3" in rows[1]
    page.find("table.placement details summary").click()
    # Drawn by the toggle event, which comes later.
    WebDriverWait(page.driver, 60).until(lambda _: page.all("table.placement details ul.tensors"))
    assert "parameter" in page.text("table.placement details ul.tensors")
    text = subprocess.run([DEVTRACE, "report", "--format", "text", outcome.logs[0]], capture_output=True, text=True).stdout
    assert "Where the model lives:\n  LlamaForCausalLM\n    cuda:0 " in text and "model.layers.0-1" in text
    redacted = subprocess.run([DEVTRACE, "report", "--redact", "--format", "json", outcome.logs[0]], capture_output=True, text=True).stdout
    assert any(json.loads(line)["record"] == "placement" for line in redacted.splitlines())
