"""Runs operators of PyTorch's own operator database with operands on mixed devices and says what was raised and what was found.

Meant to run under `devtrace rehearse --gpus 2` (run.py starts it). Writes JSON lines:
  {"event":"begin","op":NAME} … {"event":"end","op":NAME,…}   an operator without its end crashed or hung in this process
  {"event":"call",…}                                          a call that raised, or during which findings appeared
  {"event":"accepted",…}                                      a call with mixed devices that did not raise: what became of the operand
  {"event":"done"}
Every call first runs with all operands on cuda:0, and where that raises with all on the CPU. Then all on cuda:1 while cuda:0 is current; then
one operand is moved to cuda:1, and again to the CPU.
"""

import argparse
import ctypes
import dis
import gc
import json
import os
import random
import re
import sys
import traceback
import warnings

import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_unflatten

HOME = "cuda:0"
AWAY = ("cuda:1", "cpu")
SIMULATED = hasattr(ctypes.CDLL(None), "devtrace_simulation")


class Tracer:
    """What libdevtrace.so in this process has found so far; nothing where it is not loaded."""

    def __init__(self):
        library = ctypes.CDLL(None)
        self.loaded = hasattr(library, "devtrace_finding_count")
        self.lines = None
        if self.loaded:
            self.count = library.devtrace_finding_count
            self.count.restype = ctypes.c_uint64
            self.path = library.devtrace_log_path
            self.path.restype = ctypes.c_char_p
            self.seen = self.count()

    def new_findings(self) -> list[dict]:
        """The finding records that appeared in the log since the last call."""
        if not self.loaded or self.count() == self.seen:
            return []
        expected, self.seen = self.count() - self.seen, self.count()
        if self.lines is None:
            self.lines = open(self.path().decode(), encoding="utf-8")
        records = [json.loads(line) for line in self.lines]
        findings = [record for record in records if record["record"] == "finding"]
        if len(findings) != expected:
            raise RuntimeError(f"devtrace counted {expected} findings and wrote {len(findings)}")
        return findings


class Copies:
    """Bytes that the simulated devices have copied: told by them, not by devtrace."""

    PLACES = {"cpu": -1, "cuda:0": 0, "cuda:1": 1}

    def __init__(self):
        library = ctypes.CDLL(None)
        self.ask = library.devtrace_sim_copied if SIMULATED else lambda *_: 0
        if SIMULATED:
            self.ask.restype = ctypes.c_uint64

    def with_home(self, other: str) -> list[int]:
        """From `other` to HOME, and from HOME to `other`."""
        return [self.ask(self.PLACES[other], self.PLACES[HOME]), self.ask(self.PLACES[HOME], self.PLACES[other])]


def seed():
    torch.manual_seed(0)
    numpy.random.seed(0)
    random.seed(0)


def operator_name(op) -> str:
    return op.formatted_name  # with the variant, which op.name lacks


def chosen_dtype(op):
    """float32, or the first dtype that the operator takes. An operator without any on the CPU says what it takes on CUDA."""
    dtypes = op.supported_dtypes("cpu") or op.supported_dtypes("cuda")
    return torch.float32 if torch.float32 in dtypes else sorted(dtypes, key=str)[0]


def samples_with_two_tensors(op):
    """Samples on the CPU, as (leaves, structure, positions of the tensors among the leaves)."""
    for sample in op.sample_inputs("cpu", chosen_dtype(op), requires_grad=False):
        leaves, structure = tree_flatten((sample.input, sample.args, sample.kwargs))
        positions = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        if len(positions) >= 2:
            yield leaves, structure, positions


def arguments(leaves, structure, positions, moved=None, away=None):
    """Fresh copies (an operator may write to its operands), all on HOME but the one at `moved`; without one, all on `away` if it is given."""
    home = HOME if moved is not None or away is None else away
    placed = list(leaves)
    for i in positions:
        placed[i] = leaves[i].detach().clone().to(away if i == moved else home)
    value, args, kwargs = tree_unflatten(placed, structure)
    return (value, *args), kwargs


def clear_free_memory():
    """Simulated kernels may leave their results as they are; zeros there make two processes see the same, and no wild sizes or indices.

    Simulated device memory is host memory, so it can be written from here; on a real GPU nothing is done.
    """
    if not SIMULATED:
        return
    for segment in torch.cuda.memory_snapshot():
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "inactive":
                ctypes.memset(address, 0, block["size"])
            address += block["size"]


def raised_in_python(error: BaseException) -> bool:
    """Whether Python code raised it by a `raise` or `assert` of its own: such a refusal never reaches C++."""
    last = list(traceback.walk_tb(error.__traceback__))[-1][0]
    offset = error.__traceback__
    while offset.tb_next:
        offset = offset.tb_next
    return any(i.offset == offset.tb_lasti and i.opname in ("RAISE_VARARGS", "RERAISE") for i in dis.get_instructions(last.f_code))


def schema_names() -> dict[str, str]:
    """`add_Tensor`, as at::_ops names its structs, to `aten::add`."""
    return {
        schema.name.split("::")[1] + ("_" + schema.overload_name if schema.overload_name else ""): schema.name
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("aten::")
    }


def what_ran(message: str, names: dict[str, str]) -> str | None:
    """The operator that was refused, from PyTorch's own C++ stack trace (TORCH_SHOW_CPP_STACKTRACES=1): its innermost at::_ops frame."""
    frame = re.search(r"at::_ops::(\w+)::(?:call|redispatch)", message)
    return names.get(frame.group(1)) if frame else None


def run(op, args, kwargs):
    """None, or the exception that the operator raised."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            op(*args, **kwargs)
            torch.cuda.synchronize()
    except Exception as error:
        return error
    return None


class Driver:
    def __init__(self, options):
        self.options = options
        self.tracer = Tracer()
        self.names = schema_names()
        self.copies = Copies()
        self.out = open(options.out, "a", encoding="utf-8")

    def write(self, **record):
        self.out.write(json.dumps(record) + "\n")
        self.out.flush()

    def call(self, op, prepared, sample, moved=None, away=None):
        """Returns the exception; writes a record when there was one, or when devtrace found something."""
        args, kwargs = arguments(*prepared, moved, away)
        clear_free_memory()
        before = self.tracer.new_findings()  # moving operands is no operation of the database: must be empty
        other = "cpu" if away is None else away
        start = self.copies.with_home(other)
        error = run(op, args, kwargs)
        findings = self.tracer.new_findings()
        copied = [now - then for now, then in zip(self.copies.with_home(other), start)]
        if moved is None and away is None:
            self.usual = copied  # sizes, scalars and lists of addresses, which the operator copies anyway
        elif moved is not None and error is None:
            if away == "cpu":
                copied = [max(now - usual, 0) for now, usual in zip(copied, self.usual)]
            self.write(
                event="accepted", op=operator_name(op), sample=sample, operand=prepared[2].index(moved), device=away,
                bytes=prepared[0][moved].nbytes, scalar=prepared[0][moved].dim() == 0, to_home=copied[0], from_home=copied[1],
                kernels=sorted({f["launch"]["kernel"] for f in findings if "launch" in f}),
            )  # fmt: skip
        if before:
            self.write(event="stray", op=operator_name(op), findings=[brief(f) for f in before])
        if error is not None or findings:
            self.write(
                event="call",
                op=operator_name(op),
                sample=sample,
                operand=None if moved is None else prepared[2].index(moved),
                device=away,
                error=None if error is None else f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
                python=error is not None and raised_in_python(error),
                # A jitted kernel runs outside the dispatcher, and has the name that its source gives it.
                ran=None if error is None else what_ran(str(error), self.names) or getattr(op.op, "kernel_name", None),
                findings=[brief(f) for f in findings],
            )
        return error

    def operator(self, op):
        self.write(event="begin", op=operator_name(op))
        gc.collect()
        seed()  # so that two processes see the same samples, wherever they start
        calls = samples = unusable = 0
        for number, prepared in enumerate(samples_with_two_tensors(op)):
            if self.options.samples and number >= self.options.samples:
                break
            samples += 1
            try:
                arguments(*prepared)
            except Exception:  # a layout that cannot be copied to a device here
                unusable += 1
                continue
            if self.call(op, prepared, number) is not None:
                self.call(op, prepared, number, away="cpu")
            self.call(op, prepared, number, away="cuda:1")
            positions = prepared[2] if not self.options.ends else sorted({prepared[2][0], prepared[2][-1]})
            for away in AWAY:
                for moved in positions:
                    self.call(op, prepared, number, moved, away)
                    calls += 1
        self.write(event="end", op=operator_name(op), samples=samples, unusable=unusable, calls=calls)


def brief(finding: dict) -> dict:
    keys = ("kind", "operation", "devices", "argument", "method", "message")
    return {key: finding[key] for key in keys if key in finding}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--list", action="store_true", help="write the names of the operators with two tensor operands, and stop")
    parser.add_argument("--operators", help="file of operator names, one a line; without it all")
    parser.add_argument("--samples", type=int, default=0, help="samples of an operator, 0 for all")
    parser.add_argument("--ends", action="store_true", help="move only the first and the last operand")
    options = parser.parse_args()
    driver = Driver(options)
    if options.list:
        for op in op_db:
            if next(samples_with_two_tensors(op), None):
                driver.write(event="operator", op=operator_name(op))
        return
    wanted = None
    if options.operators:
        with open(options.operators, encoding="utf-8") as file:
            wanted = set(file.read().split())
    # A collection in the middle of a call gives back tensors of an earlier one, and with them memory that is not clear.
    gc.disable()
    gc.freeze()
    # PyTorch lets devices reach each other at the first copy between them. From then on a kernel that reads the other's memory works.
    for home, away in ((HOME, "cuda:1"), ("cuda:1", HOME)):
        torch.ones(1, device=home).to(away)
    driver.tracer.new_findings()
    driver.write(event="start", tracer=driver.tracer.loaded, devices=torch.cuda.device_count())
    for op in op_db:
        if wanted is None or operator_name(op) in wanted:
            driver.operator(op)
    driver.write(event="done")


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Handles of simulated libraries are not what is tested: a crash while they are torn down would be counted as an operator's.
    os._exit(0)
