"""Sets what PyTorch raised against what devtrace found. Knows nothing of processes: takes the driver's records."""

import re
from dataclasses import dataclass, field

HOME = "cuda:0"


@dataclass
class Verdicts:
    """Lists of human-readable lines, one a call; empty lists where devtrace is right."""

    operators: int = 0
    calls: int = 0
    refused: int = 0
    refused_operators: set = field(default_factory=set)
    explained: int = 0
    accepted: int = 0  # mixed calls that PyTorch carried out
    in_python: dict = field(default_factory=dict)  # operator → first message; never reaches C++, so is not counted as refused
    missed: list = field(default_factory=list)
    duplicate: list = field(default_factory=list)
    wrong_operation: list = field(default_factory=list)
    wrong_devices: list = field(default_factory=list)
    false: list = field(default_factory=list)  # a finding where nothing was refused, or where everything is on one device
    changed: list = field(default_factory=list)  # PyTorch's exception is another one without devtrace
    not_judged: dict = field(default_factory=dict)  # operator → why its call on one device fails in simulation
    no_operator: dict = field(default_factory=dict)  # operator → refusal outside any operator of PyTorch's dispatcher
    names_no_device: dict = field(default_factory=dict)  # operator → refusal whose message names no device
    crashed: list = field(default_factory=list)

    def faults(self) -> list:
        return self.missed + self.duplicate + self.wrong_operation + self.wrong_devices + self.false + self.changed


def key(record):
    return record["op"], record["sample"], record["operand"], record["device"]


def base(operation: str) -> str:
    """`aten::add.Tensor` → `add`; trailing and leading underscores tell in-place and internal forms of the same operator."""
    return operation.split("::")[-1].split(".")[0]


def message(record) -> str:
    """The exception's first line without the addresses and hexadecimal numbers that differ between processes."""
    return re.sub(r"0x[0-9a-f]+", "0x…", record["error"] or "")


def devices_named(text: str) -> set[str]:
    """Devices that a message names, be it by a tensor type: {"cuda", "cpu"} for CUDAFloatType and CPUFloatType."""
    named = set(re.findall(r"cuda:\d+|\bcpu\b|\w+(?=\.get_device\(\))", text))
    named |= {kind.lower() for kind in re.findall(r"\b(CUDA|CPU)[A-Z]\w+Type\b", text)}
    named |= {"cuda" if prefix else "cpu" for prefix in re.findall(r"\btorch\.(cuda\.)?[A-Z]\w+Tensor\b", text)}
    return named


def lacks_kernel(text: str) -> bool:
    return "Could not run 'aten::" in text and "' backend" in text


def where(record) -> str:
    moved = f"all operands on {record['device'] or HOME}" if record["operand"] is None else f"operand {record['operand']} on {record['device']}"
    return f"{record['op']} sample {record['sample']}, {moved}"


def judge(traced: list[dict], reference: list[dict]) -> Verdicts:
    """`traced`: records under devtrace. `reference`: records of the same calls without it, with PyTorch's C++ stack traces."""
    v = Verdicts()
    plain = {key(r): r for r in reference if r["event"] == "call"}
    finished = {r["op"] for r in reference if r["event"] == "end"}
    ended = [r for r in traced if r["event"] == "end"]
    v.operators = len(ended)
    v.calls = sum(r["calls"] for r in ended)
    together = {(r["op"], r["sample"], r["device"]): r for r in traced if r["event"] == "call" and r["operand"] is None and r["error"]}
    for r in traced:
        if r["event"] == "stray":
            v.false.append(f"{r['op']}, between calls: {r['findings']}")
        if r["event"] != "call":
            continue
        # With all operands on one device no finding of any kind is due; with mixed ones a launch's is another matter (silent.py).
        findings = [f for f in r["findings"] if r["operand"] is None or f["kind"] == "refused-op"]
        twin = plain.get(key(r))
        if r["op"] in finished and r["error"] and (twin is None or message(twin) != message(r)):
            v.changed.append(f"{where(r)}: {message(r)!r}, without devtrace {message(twin) if twin else 'no error'!r}")
        if r["operand"] is None or not r["error"]:
            if findings:
                v.false.append(f"{where(r)}: {findings[0].get('message')}")
            if r["operand"] is None and r["device"] is None:
                v.not_judged.setdefault(r["op"], r["error"])
            continue
        same = together.get((r["op"], r["sample"], None))
        # The operation has a kernel for the CPU only: what its operands on CUDA and on the CPU were refused for is the mix.
        only_cpu = lacks_kernel(r["error"]) and r["device"] == "cpu" and (r["op"], r["sample"], "cpu") not in together
        if same is not None and not only_cpu:
            # The simulation cannot run this call on one device either: only a message that is new and names two devices is a refusal.
            if message(same) == message(r) or len(devices_named(r["error"])) < 2:
                # tensor_split wants its indices on the CPU: the same refusal with and without the move. A finding is neither due nor wrong.
                if findings and not devices_named(r["error"]):
                    v.false.append(f"{where(r)}: {findings[0].get('message')}")
                continue
        if r["python"]:
            v.in_python.setdefault(r["op"], r["error"])
            if findings:
                v.false.append(f"{where(r)}, raised in Python: {findings[0].get('message')}")
            continue
        judge_refusal(v, r, findings, twin)
    seen = {key(r) for r in traced if r["event"] == "call"}
    done = {r["op"] for r in ended}
    for k, r in plain.items():
        if r["op"] in done and k not in seen:
            v.changed.append(f"{where(r)}: no error, without devtrace {message(r)!r}")
    v.accepted = v.calls - sum(1 for r in traced if r["event"] == "call" and r["operand"] is not None and r["error"])
    return v


def judge_refusal(v: Verdicts, r: dict, findings: list[dict], twin: dict | None) -> None:
    """One call that C++ refused: exactly one finding, with the operation and both devices."""
    v.refused += 1
    v.refused_operators.add(r["op"])
    if not devices_named(r["error"]):
        v.names_no_device.setdefault(r["op"], r["error"])
    if not findings:
        v.missed.append(f"{where(r)}: {r['error']}")
        return
    if len(findings) > 1:
        v.duplicate.append(f"{where(r)}: {len(findings)} findings: {r['error']}")
        return
    finding = findings[0]
    right = True
    # What ran is read from PyTorch's own stack trace of the same call in another process, not from anything that devtrace says.
    ran = (twin or {}).get("ran")
    if ran is None and "operation" not in finding:
        v.no_operator.setdefault(r["op"], r["error"])
    elif base(finding.get("operation", "")) != base(ran or r["op"]):
        v.wrong_operation.append(f"{where(r)}: devtrace says {finding.get('operation')}, PyTorch ran {ran}: {r['error']}")
        right = False
    if not {HOME, r["device"]} <= set(finding.get("devices", [])):
        v.wrong_devices.append(f"{where(r)}: devtrace says {finding.get('devices')}: {r['error']}")
        right = False
    v.explained += right
