"""scripts/device-errors: what it finds in sources, and that the catalogue is whole."""

import subprocess
import sys

from conftest import TOP

sys.path.insert(0, str(TOP / "scripts"))
from error_catalogue import catalogue, cpp_raises, placement, python_raises, search  # noqa: E402
from error_catalogue.raises import HOLE, Raise, pattern, shown  # noqa: E402

PYTHON = '''
class Layer:
    def forward(self, a, b):
        if a.device != b.device:
            raise ValueError(f"a is on {a.device}, but b is on {b.device}")
        torch._check(a.is_cuda, lambda: "a has to be on " + "a GPU")
        assert a.device == b.device, "a and b on %s" % a.device
        message = "found {} devices".format(2)
        raise RuntimeError(message)
'''

CPP = """
Tensor& first_cuda(const Tensor& self) {
  TORCH_CHECK(self.device() == other.device(), "expected self on ",  // why
              "the device ", other.device(), ", but got, ", self.device());
  TORCH_CHECK(self.is_cuda());
  std::stringstream ss;
  ss << "gradient " << i << " is on device " << grad.device();
  TORCH_CHECK(false, format_error(ss.str()));
  throw TypeError("can't convert %s device type tensor to numpy", name);
}
"""


def test_messages_of_python():
    found = python_raises.raises_of(PYTHON, "layer.py")
    assert [(shown(one.message), one.exception, one.function) for one in found] == [
        ("a is on …, but b is on …", "ValueError", "Layer.forward"),
        ("a has to be on a GPU", "RuntimeError", "Layer.forward"),
        ("a and b on …", "AssertionError", "Layer.forward"),
        ("found … devices", "RuntimeError", "Layer.forward"),
    ]
    assert found[0].condition == "a.device != b.device"


def test_messages_of_cpp():
    found = cpp_raises.raises_of(CPP, "first.cpp")
    assert [(shown(one.message), one.exception) for one in found] == [
        ("expected self on the device …, but got, …", "RuntimeError"),
        ("Expected self.is_cuda() to be true, but got false.", "RuntimeError"),
        ("gradient … is on device …", "RuntimeError"),
        ("can't convert … device type tensor to numpy", "TypeError"),
    ]
    assert {one.function for one in found} == {"first_cuda"}


def test_what_is_about_placement():
    def why_not(message, condition="", file="torch/nn/functional.py"):
        return placement.why_not(Raise(message, condition, "RuntimeError", file, "f"))

    assert why_not(f"index is on {HOLE}, different from other tensors on device {HOLE}") is None
    assert why_not("RNG state must be a torch.ByteTensor", "new_state.device().type() == kCPU") is None
    assert why_not("CUDA out of memory. Tried to allocate on the GPU device") == "memory ran out"
    assert why_not("tensors have to be on an XPU device") == "another backend"
    assert why_not("sizes have to be positive", "size > 0") == "does not speak of a place"


def test_a_pattern_matches_what_is_printed():
    import re

    assert re.search(pattern(f"found {HOLE},\n   (on {HOLE})"), "ValueError: found cuda:0, (on cpu)")


def test_versions_come_from_sources_and_from_strings(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
    check = 'void f() {\n  TORCH_CHECK(a.device() == b.device(), "a and b are on different devices: ", a.device());\n}\n'
    (old / "f.cpp").write_text(check)
    (old / "lib.so.strings").write_text("a and b are on different devices: \n")
    (new / "lib.so.strings").write_text("something else\n")
    (new / "g.py").write_text('def g(a):\n    if a.device.type != "cpu":\n        raise ValueError("a is not on the CPU, but on another device")\n')
    made = {row["text"]: row for row in search.table([("torch", "2.4", old), ("torch", "2.10", new)])}
    cpp, python = made["a and b are on different devices: …"], made["a is not on the CPU, but on another device"]
    assert (cpp["since"], cpp["before"], cpp["until"], cpp["raised_by"]) == ("2.4", True, "2.4", ["f.cpp:f"])
    assert (python["since"], python["before"], python["until"], python["layer"]) == ("2.10", False, None, "Python")


def test_the_catalogue_is_decided_and_its_page_is_current():
    checked = subprocess.run([TOP / "scripts/device-errors", "page", "--check"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    assert len(catalogue.programs()) > 200
