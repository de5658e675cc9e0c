"""device_ids of DistributedDataParallel: the rank's own device, in place of the one of rank 0."""

import ast

import devices
from candidate import Candidate
from source import keyword, last_name


def candidates(failure):
    if not any("DistributedDataParallel" in frame.get("function", "") for frame in failure.stack):
        return
    for source in failure.files():
        for call in ast.walk(source.tree):
            if not isinstance(call, ast.Call) or last_name(call.func) not in ("DistributedDataParallel", "DDP"):
                continue
            given = [each for each in (keyword(call, "device_ids"), keyword(call, "output_device")) if each]
            statement = source.enclosing(call, ast.stmt)
            written = {source.of(each.value) for each in given}
            for rank, own in enumerate(ways(source, statement) if given else ()):
                if {own, f"[{own}]"} & written:
                    continue
                each = Candidate("device-ids", f"device_ids=[{own}]", 0.9 + 0.3 * rank, says=own)
                for one in given:
                    each.replace(source, one.value, f"[{own}]" if one.arg == "device_ids" else own)
                yield each


def ways(source, statement):
    """How the statement can say its rank's own device; the one that the program has made its current one, last."""
    known = [each for each in devices.in_scope(source, statement) if devices.names_known(source, statement, each)]
    return [*known[:1], *devices.local_ranks(source, statement)[:1], "torch.cuda.current_device()"]
