"""A collective that only some ranks come to: out of the branch that keeps the others away, or behind no line that leaves before it."""

import ast
import re

from candidate import Candidate
from source import dotted, head, last_name

RANK = re.compile(r"(^|_)rank$|^is_\w*(main|master|first|zero)\w*$|^(main|master)_process$|^get_(\w+_)?rank$")
COLLECTIVES = re.compile(r"^(all_reduce|all_gather|all_to_all|reduce|gather|scatter|broadcast|barrier|monitored_barrier|wait_for_everyone)(_|$)")
LEAVES = ("sys.exit", "exit", "quit", "os._exit")
DEEP = 3  # functions from the collective outward


def candidates(failure):
    if failure.finding.get("kind") not in ("collective-mismatch", "collective-stalled"):
        return
    stalled = failure.finding["kind"] == "collective-stalled"
    missing = [place_of(failure, each) for each in failure.ranks if stalled and each.raw.get("odd")]
    reached = [place_of(failure, each) for each in failure.ranks if not (stalled and each.raw.get("odd"))]
    for order, (source, statement) in enumerate(dict.fromkeys(filter(None, reached))):
        for depth, (where, inner, call) in enumerate(ways_to(failure, source, statement)):
            prior = 1.0 + 0.2 * order + 0.1 * depth
            yield out_of_branch(where, inner, call, prior)
            yield from before_leaving(where, inner, call, prior)
        for last in filter(None, missing):
            yield from without_leaving(source, statement, last)
    # NCCL pairs collectives by their number: the one that is a rank's alone may have been taken for another before.
    for source in failure.files():
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Call) and is_collective(node):
                for depth, way in enumerate(ways_to(failure, source, source.enclosing(node, ast.stmt))):
                    yield out_of_branch(*way, 3.0 + 0.1 * depth)
                    yield from before_leaving(*way, 3.0 + 0.1 * depth)


def is_collective(call):
    """Of a process group's, not torch.gather or functools.reduce."""
    of = (dotted(call.func) or "").rpartition(".")[0]
    return bool(COLLECTIVES.match(last_name(call.func) or "")) and of not in ("", "torch", "functools", "F")


def place_of(failure, rank):
    return next((place for frame in rank.stack("created") if (place := failure.program.place(frame))), None)


def ways_to(failure, source, statement):
    """The statement of the collective with its call, then those that call the function which it stands in, outward."""
    calls = [node for node in head(statement) if isinstance(node, ast.Call)]
    named = [node for node in calls if COLLECTIVES.match(last_name(node.func) or "")]
    ways = [(source, statement, node) for node in (named or calls)[:1]]
    for _ in range(DEEP):
        yield from ways
        functions = dict.fromkeys(where.function(inner).name for where, inner, _ in ways if where.function(inner))
        ways = [
            (where, where.statement(node.lineno), node)
            for where in failure.files()
            for node in ast.walk(where.tree)
            if isinstance(node, ast.Call) and last_name(node.func) in functions
        ]


def says_rank(source, test):
    """It is decided by the rank: by its name, or by what is computed from it in one step."""
    names = {last_name(node) for node in ast.walk(test) if isinstance(node, (ast.Name, ast.Attribute))}
    if any(RANK.search(name) for name in names):
        return True
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Assign) and names & {last_name(each) for each in node.targets}:
            if any(RANK.search(last_name(each)) for each in ast.walk(node.value) if isinstance(each, (ast.Name, ast.Attribute))):
                return True
    return False


def out_of_branch(source, statement, call, prior):
    """In front of an `if rank == 0:`, behind it, or between two of them: in the order that the lines have."""
    branch = source.parents.get(statement)
    if not isinstance(branch, ast.If) or statement not in branch.body or not says_rank(source, branch.test):
        return None
    place, outer, inner = branch.body.index(statement), source.indent(branch), source.indent(statement)
    if outer is None or inner is None:
        return None
    whole = getattr(statement, "value", None) is call and isinstance(statement, (ast.Expr, ast.Assign, ast.AnnAssign))
    each = Candidate("collective-of-all", f"{source.of(call)} by all ranks", prior)
    lines = [source.of(statement)] if whole else [f"{name_for(source)} = {source.of(call)}"]
    if others := [source.of(value) for value in parts(branch.test) if not says_rank(source, value)]:
        lines = [f"if {' and '.join(others)}:", inner[len(outer) :] + lines[0]]
    if not whole:
        if not always_evaluated(source, statement, call):
            return None
        each.replace(source, call, name_for(source))
    rest = branch.body[place + 1 :] if whole else branch.body[place:]
    if place == 0:
        if whole and not rest and not branch.orelse:
            return each.replace(source, branch, f"{source.newline}{outer}".join(lines))
        if whole:
            each.edits.append(without(source, statement) if rest else (source, *source.span(statement), "pass"))
        return each.before(source, branch, *lines)
    if branch.orelse:
        if rest:
            return None
        each.edits.append(without(source, statement))
        return each.after(source, branch, *lines)
    if rest:
        lines.append(f"if {source.of(branch.test)}:")
    text = "".join(outer + line + source.newline for line in lines)
    start, end, _ = without(source, statement)[1:]
    if not whole:
        return each.insert(source, start, text)
    each.edits.append((source, start, end, text))
    return each


def without(source, statement):
    """Its lines, with the blanks before and the end of the last one."""
    return source, source.starts[statement.lineno - 1], source.starts[statement.end_lineno], ""


def parts(test):
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]


def always_evaluated(source, statement, node):
    """Whenever the statement is: no part of a condition, and not once for each element."""
    while node is not statement:
        node = source.parents[node]
        if isinstance(node, (ast.Lambda, ast.IfExp, ast.BoolOp, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            return False
    return isinstance(statement, (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return))


def name_for(source):
    taken = {node.id for node in ast.walk(source.tree) if isinstance(node, ast.Name)}
    return next(name for number in range(len(taken) + 1) if (name := f"from_all_ranks{number or ''}") not in taken)


def siblings(source, statement):
    """The block in which it stands."""
    parent = source.parents.get(statement)
    blocks = [getattr(parent, name, None) for name in ("body", "orelse", "finalbody")]
    return next((block for block in blocks if isinstance(block, list) and statement in block), [])


def leaving(statement):
    """The statement by which a branch leaves, where that is all it does; None for another one."""
    if not isinstance(statement, ast.If) or statement.orelse or len(statement.body) != 1:
        return None
    only = statement.body[0]
    exits = isinstance(only, ast.Expr) and isinstance(only.value, ast.Call) and dotted(only.value.func) in LEAVES
    return only if exits or isinstance(only, ast.Return) else None


def before_leaving(source, statement, call, prior):
    """`if rank != 0: return` in front of it: what stands between becomes the branch of the others, and the collective all ranks'."""
    block = siblings(source, statement)
    for early in block[: block.index(statement)] if block else ():
        only = leaving(early)
        between = block[block.index(early) + 1 : block.index(statement)]
        if only is None or not between or not says_rank(source, early.test) or source.indent(only) is None:
            continue
        step = source.indent(only)[len(source.indent(early)) :]
        each = Candidate("collective-of-all", f"{source.of(call)} by all ranks", prior)
        each.edits.append((source, source.span(early)[0], source.span(only)[1], f"if {inverted(source, early.test)}:"))
        for number in range(between[0].lineno, between[-1].end_lineno + 1):
            if source.lines[number - 1].strip():
                each.insert(source, source.starts[number - 1], step)
        behind = block[block.index(statement) + 1 :]
        yield each.after(source, statement, *source.of(early).splitlines()[:1], step + source.of(only)) if behind else each


OPPOSITES = {ast.Eq: "!=", ast.NotEq: "==", ast.Gt: "<=", ast.LtE: ">", ast.Lt: ">=", ast.GtE: "<"}


def inverted(source, test):
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return source.of(test.operand)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in OPPOSITES:
        return f"{source.of(test.left)} {OPPOSITES[type(test.ops[0])]} {source.of(test.comparators[0])}"
    plain = isinstance(test, (ast.Name, ast.Attribute, ast.Call))
    return f"not {source.of(test)}" if plain else f"not ({source.of(test)})"


def without_leaving(source, statement, last):
    """A rank has ended between its last collective and this one: it goes on, and comes to it."""
    where, passed = last
    block = siblings(source, statement)
    if where is not source or not block:
        return
    for early in block[: block.index(statement)]:
        only = leaving(early)
        if only is None or early.lineno <= passed.lineno:
            continue
        each = Candidate("collective-of-all", f"no {source.of(only)} before {source.of(statement)}", 1.5)
        each.edits.append(without(source, early))
        yield each
