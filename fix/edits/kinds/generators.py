"""The generator's device: where it is made, or random numbers made where it is and moved."""

import ast

import devices
from candidate import Candidate
from source import dotted, head, keyword


def candidates(failure):
    if "enerator" not in failure.message and "enerator" not in str(failure.finding.get("operands"))[:4000]:
        return
    wanted = list(dict.fromkeys([*failure.devices(), failure.finding.get("current_device") or "cuda:0", "cpu"]))
    for source in failure.files():
        for call in ast.walk(source.tree):
            if isinstance(call, ast.Call) and dotted(call.func) == "torch.Generator":
                statement = source.enclosing(call, ast.stmt)
                ways = [(each, False) for each in devices.in_scope(source, statement) if devices.names_known(source, statement, each)][:1]
                for rank, (way, names_device) in enumerate(ways + [(devices.literal(each), True) for each in wanted]):
                    each = Candidate("generator-device", f"the generator is made on {way}", 1.0 + 0.5 * rank, names_device=names_device)
                    if call.args or call.keywords:
                        yield each.replace(source, call.args[0] if call.args else call.keywords[0].value, way)
                    else:
                        yield each.insert(source, source.span(call)[1] - 1, f"device={way}")
    for site in failure.sites:
        for call in [node for node in head(site.statement) if isinstance(node, ast.Call)]:
            generator, device = keyword(call, "generator"), keyword(call, "device")
            if generator is None:
                continue
            name = site.source.of(generator.value)
            if device is not None:
                each = Candidate("generator-device", f"made on {name}.device, then moved", 1.4)
                each.insert(site.source, site.source.span(call)[1], f".to({site.source.of(device.value)})")
                yield each.replace(site.source, device.value, f"{name}.device")
            else:
                each = Candidate("generator-device", f"made on {name}.device", 1.4)
                yield each.insert(site.source, site.source.span(call)[1] - 1, f", device={name}.device")
