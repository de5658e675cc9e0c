"""Move the operands where they are used: in the failing line, or in the call that leads to it."""

import ast

import devices
from candidate import Candidate, grouped
from program import reads
from source import parsed


def candidates(failure):
    for source_device, device, cost in directions(failure):
        moved = [each for each in failure.on(source_device) if each.movable]
        for order, site in enumerate(failure.sites):
            nodes = [node for operand in moved for node in failure.at(operand, site)]
            nodes = outermost(site.source, list(dict.fromkeys(nodes)))
            if not nodes:
                yield from in_container(failure, site, order, moved, device, cost)
                continue
            for rank, (text, names_device) in enumerate(says(failure, site, device)):
                what = ", ".join(dict.fromkeys(site.source.of(node) for node in nodes))
                prior = 2 + 0.4 * min(order, 6) + cost + 1.5 * rank
                each = Candidate("move-at-use", f"move {what} to {text}", prior, names_device=names_device, says=text, wanted=device)
                for node in nodes:
                    each.replace(site.source, node, f"{grouped(site.source, node)}.to({text})")
                yield each


def directions(failure):
    """Which group of operands to bring to which device, and how unlikely that is. Nothing goes to meta, where no values are: the
    module's hooks bring what lies there when it is called."""
    found = failure.devices()
    for source_device in found:
        for device in found:
            if device in (source_device, "meta"):
                continue
            moved = failure.on(source_device)
            cost = 0.0
            if any(each.is_state for each in moved):
                cost += 2.0
            if device == "cpu":
                cost += 4.0
            if size(moved) > size(failure.on(device)):
                cost += 0.5
            yield source_device, device, cost
    # Refused for where it lies alone: numpy(), pin_memory(), what wants its lengths on the CPU.
    wanted = failure.finding.get("wanted_device") or (failure.finding.get("current_device") if failure.has_no_backend() else None)
    for source_device in found:
        if wanted and wanted not in found and wanted not in ("meta", "cuda") and source_device != "meta":
            yield source_device, wanted, 0.0


def size(operands):
    return sum(each.raw.get("bytes", 0) for each in operands)


def says(failure, site, device):
    """At most two ways to say the device there: what the operands offer, what the finding knows, then what the function uses; else itself."""
    scope = [each for each in devices.in_scope(site.source, site.statement) if devices.names_known(site.source, site.statement, each)]
    known = devices.known_words(failure, site.source, site.statement, device)
    found = list(dict.fromkeys(devices.of_operand(failure, site, device)[:1] + known + scope))
    found = [each for each in found if not devices.elsewhere(failure, site.source, site.statement, each, device)]
    known = [(each, False) for each in found[:2]]
    if device == "cpu":
        return [(devices.literal(device), False)]
    return known or [(devices.literal(device), True)]


def outermost(source, nodes):
    """Without those that stand inside another one."""
    spans = [source.span(node) for node in nodes]

    def inside(span):
        return any(other != span and other[0] <= span[0] and span[1] <= other[1] for other in spans)

    return [node for node, span in zip(nodes, spans) if not inside(span)]


def in_container(failure, site, order, moved, device, cost):
    """`model(**batch)`, where the operand is batch["ids"]: the entry, or every value, in a line before."""
    for operand in moved:
        entry = parsed(operand.names.get(site.index) or "")
        if not isinstance(entry, ast.Subscript) or not isinstance(entry.value, (ast.Name, ast.Attribute)):
            continue
        container = ast.unparse(entry.value)
        if not reads(site, container):
            continue
        name = operand.names[site.index]
        text, names_device = says(failure, site, device)[0]
        prior = 2.3 + 0.4 * min(order, 6) + cost
        one = Candidate("move-at-use", f"move {name} to {text}", prior, names_device=names_device)
        yield one.before(site.source, site.statement, f"{name} = {name}.to({text})")
        if isinstance(entry.slice, ast.Constant) and isinstance(entry.slice.value, str):
            every = Candidate("move-at-use", f"move what {container} holds to {text}", prior + 0.4, names_device=names_device)
            line = f"{container} = {{key: value.to({text}) for key, value in {container}.items()}}"
            yield every.before(site.source, site.statement, line)


def loops(failure):
    """`for x, y in loader:` … the operand is moved first thing in the loop."""
    for source_device, device, cost in directions(failure):
        for site in failure.sites:
            loop = site.source.enclosing(site.statement, (ast.For, ast.AsyncFor))
            if loop is None or site.source.function(loop) is not site.source.function(site.statement):
                continue
            targets = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
            names = [each.names.get(site.index) for each in failure.on(source_device) if each.movable]
            names = [name for name in dict.fromkeys(names) if name in targets]
            if not names:
                continue
            for text, names_device in devices.ways(failure, site.source, loop, device)[:1]:
                lines = [f"{name} = {name}.to({text})" for name in names]
                each = Candidate("move-at-use", f"move {', '.join(names)} to {text} first thing in the loop", 2.2 + cost, names_device=names_device)
                yield each.before(site.source, loop.body[0], *lines)
