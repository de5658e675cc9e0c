"""The judge itself: each kind of fault, made up, is seen as what it is."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from judge import judge  # noqa: E402
from silent import how, markdown  # noqa: E402

MESSAGE = "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cuda:1!"
FINDING = {"kind": "refused-op", "operation": "aten::add", "devices": ["cuda:0", "cuda:1"]}


def call(**changes):
    record = {
        "event": "call", "op": "add", "sample": 0, "operand": 1, "device": "cuda:1", "error": MESSAGE, "python": False, "ran": "aten::add", "findings": [FINDING],
    }
    return {**record, **changes}


def verdicts(*traced, reference=None):
    end = {"event": "end", "op": "add", "samples": 1, "unusable": 0, "calls": 4}
    return judge([*traced, end], [*([call(findings=[])] if reference is None else reference), end])


def test_right():
    v = verdicts(call())
    assert (v.refused, v.explained, v.accepted, v.faults()) == (1, 1, 3, [])


@pytest.mark.parametrize(
    "fault, changes",
    [
        ("missed", {"findings": []}),
        ("missed", {"findings": [{**FINDING, "kind": "remote-access"}]}),
        ("duplicate", {"findings": [FINDING, FINDING]}),
        ("wrong_operation", {"findings": [{**FINDING, "operation": "aten::mul"}]}),
        ("wrong_operation", {"findings": [{"kind": "refused-op", "devices": ["cuda:0", "cuda:1"]}]}),
        ("wrong_devices", {"findings": [{**FINDING, "devices": ["cuda:0", "cpu"]}]}),
        ("wrong_devices", {"findings": [{"kind": "refused-op", "operation": "aten::add"}]}),
        ("false", {"error": None}),
        ("false", {"python": True}),
        ("changed", {"error": MESSAGE.replace("two", "three")}),
    ],
)
def test_wrong(fault, changes):
    v = verdicts(call(**changes))
    assert len(getattr(v, fault)) == 1 and len(v.faults()) == 1


def test_a_finding_on_one_device_is_false():
    v = verdicts(call(operand=None, device=None, error=None), reference=[])
    assert len(v.false) == 1 and v.refused == 0


def test_an_exception_that_only_devtrace_brings_about():
    assert len(verdicts(call(), reference=[]).changed) == 1


def test_an_exception_that_devtrace_takes_away():
    assert len(verdicts(call(operand=0)).changed) == 2  # operand 0 raises only with it, operand 1 only without


def test_what_fails_on_one_device_is_refused_only_by_a_new_message_with_both_devices():
    same = call(operand=None, device=None, error="RuntimeError: no such kernel", findings=[])
    other = call(error="RuntimeError: no such kernel", findings=[])
    v = verdicts(same, other, reference=[same, other])
    assert (v.refused, v.faults(), list(v.not_judged)) == (0, [], ["add"])
    v = verdicts(same, call(), reference=[same, call(findings=[])])
    assert (v.refused, v.explained) == (1, 1)


def test_a_tensor_type_names_a_device():
    same = call(operand=None, device=None, error="RuntimeError: no such kernel", findings=[])
    types = "RuntimeError: Input type (CUDAFloatType) and bias type (CPUFloatType) should be the same"
    assert verdicts(same, call(error=types), reference=[same, call(error=types, findings=[])]).explained == 1


def test_outside_any_operator_none_is_named():
    nameless = {"kind": "refused-op", "devices": ["cuda:0", "cuda:1"]}
    v = verdicts(call(findings=[nameless]), reference=[call(findings=[], ran=None)])
    assert (v.explained, v.faults(), list(v.no_operator)) == (1, [], ["add"])
    v = verdicts(call(findings=[{**nameless, "operation": "aten::mul"}]), reference=[call(findings=[], ran=None)])
    assert len(v.wrong_operation) == 1


def test_a_refusal_raised_in_python_is_kept_apart():
    v = verdicts(call(python=True, findings=[]))
    assert (v.refused, list(v.in_python), v.faults()) == (0, ["add"], [])


NO_KERNEL = "NotImplementedError: Could not run 'aten::histogram.bins_tensor' with arguments from the 'CUDA' backend."


def test_an_operation_that_only_the_cpu_has_is_refused_for_a_mix_with_the_cpu():
    same = call(operand=None, device=None, error=NO_KERNEL, findings=[])
    both = {**FINDING, "devices": ["cuda:0", "cpu"]}
    cpu, cuda = call(device="cpu", error=NO_KERNEL, findings=[both]), call(error=NO_KERNEL, findings=[])
    reference = [{**record, "findings": []} for record in (same, cpu, cuda)]
    v = verdicts(same, cpu, cuda, reference=reference)
    assert (v.refused, v.explained, v.faults()) == (1, 1, [])
    assert len(verdicts(same, {**cpu, "findings": []}, cuda, reference=reference).missed) == 1
    assert len(verdicts(same, cpu, {**cuda, "findings": [FINDING]}, reference=reference).false) == 1
    nowhere = call(operand=None, device="cpu", error=NO_KERNEL, findings=[])
    v = verdicts(same, nowhere, cpu, cuda, reference=[*reference, nowhere])
    assert (v.refused, len(v.false)) == (0, 1)


def accepted(**changes):
    record = {
        "event": "accepted", "op": "where", "sample": 0, "operand": 1, "device": "cuda:1", "bytes": 40, "scalar": False, "to_home": 0, "from_home": 0, "kernels": [],
    }  # fmt: skip
    return {**record, **changes}


@pytest.mark.parametrize(
    "expected, changes",
    [
        ("remote", {"kernels": ["void at::native::where_kernel<float>(int)"], "to_home": 40}),
        ("copied", {"to_home": 40}),
        ("result", {"from_home": 64}),
        ("scalar", {"scalar": True, "bytes": 4}),
        ("copied", {"to_home": 8}),
        ("neither", {}),
    ],
)
def test_what_becomes_of_an_operand_that_is_not_refused(expected, changes):
    record = accepted(**changes)
    assert how(record) == expected
    page = markdown([record])
    assert page.count("| `where` |") == 1
    assert ("`at::native::where_kernel`" in page) == (expected == "remote")


def test_a_launch_finding_is_due_only_with_mixed_operands():
    launch = [{**FINDING, "kind": "remote-access"}]
    assert verdicts(call(error=None, findings=launch), reference=[]).faults() == []
    assert len(verdicts(call(error=None, findings=launch, operand=None), reference=[]).false) == 1
