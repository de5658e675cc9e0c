"""What becomes of an operand on another device that PyTorch does not refuse: copied, or read where it is by a kernel."""

from dataclasses import dataclass, field
from importlib.metadata import version

HOW = (  # key, title, what it means
    ("remote", "A kernel reads or writes the other device's memory", "Silent where the devices can reach each other, error 700 where they cannot. devtrace reports `remote-access`, or `wrong-current-device` where all of the kernel's memory is there; the kernels are those it named."),
    ("copied", "Copied to the other operands' device", "Right results, at the cost of a copy in every call. No finding: copies are counted, not reported."),
    ("result", "The result, or what is worked on, is copied to where the operand is", "As above, the other way round."),
    ("scalar", "A tensor without dimensions is read by the host", "PyTorch takes such a tensor as the number that it holds."),
    ("neither", "Neither copied nor read on cuda:0", "Only its metadata matters, the operator works on the CPU, or it works on the operand's own device alone."),
)  # fmt: skip


@dataclass
class Operator:
    calls: int = 0
    operands: set = field(default_factory=set)  # (position, device)
    kernels: set = field(default_factory=set)
    bytes: int = 0


def how(record: dict) -> str:
    if record["kernels"]:
        return "remote"
    if record["to_home"] >= record["bytes"] > 0:
        return "copied"
    if record["from_home"] > 0 and record["from_home"] >= record["bytes"]:
        return "result"
    if record["scalar"]:
        return "scalar"
    return "copied" if record["to_home"] else "result" if record["from_home"] else "neither"


def gather(records: list[dict]) -> dict[str, dict[str, Operator]]:
    """{how: {operator: what}} of the calls that were accepted."""
    found = {key: {} for key, *_ in HOW}
    for record in records:
        if record["event"] == "accepted":
            one = found[how(record)].setdefault(record["op"], Operator())
            one.calls += 1
            one.operands.add((record["operand"], record["device"]))
            one.kernels.update(short(kernel) for kernel in record["kernels"])
            one.bytes += record["to_home"] + record["from_home"]
    return found


def short(kernel: str) -> str:
    """`void at::native::(anonymous namespace)::f<…>(…)` → `at::native::f`."""
    text = kernel.replace("(anonymous namespace)::", "")
    ends = [end for end in (text.find("<"), text.find("(")) if end > 0]
    return text[: min(ends, default=len(text))].split()[-1]


def operands_of(one: Operator) -> str:
    positions = {}
    for position, device in sorted(one.operands):
        positions.setdefault(device, []).append(str(position))
    return "; ".join(f"{', '.join(numbers)} on {device}" for device, numbers in sorted(positions.items(), reverse=True))


def markdown(records: list[dict]) -> str:
    found = gather(records)
    page = [
        "# Operators that take operands on different devices without a word",
        "",
        f"Written by `make conformance`; PyTorch {version('torch')}, two simulated devices that can reach each other, every sample of PyTorch's operator database",
        "with at least two tensor operands, one of them moved. Bytes that crossed are the simulated devices' own count, less what the operator copies with all",
        "operands in one place; kernels are those that devtrace reported. Operands are counted from 0, in the order of the call. With all operands on cuda:0, and",
        "with all on cuda:1 while cuda:0 is current, the same run has no finding (docs/evidence/conformance.md).",
        "",
    ]
    for key, title, meaning in HOW:
        operators = found[key]
        calls = sum(one.calls for one in operators.values())
        page += [f"## {title}", "", f"{meaning} {len(operators)} operators, {calls} calls.", ""]
        if operators:
            last = "kernels" if key == "remote" else "bytes that crossed, in all calls"
            page += [f"| operator | operands | calls | {last} |", "|---|---|---:|---|"]
            page += [
                f"| `{op}` | {operands_of(one)} | {one.calls} | {', '.join(f'`{kernel}`' for kernel in sorted(one.kernels)) if key == 'remote' else one.bytes} |"
                for op, one in sorted(operators.items())
            ]
            page.append("")
    return "\n".join(page)
