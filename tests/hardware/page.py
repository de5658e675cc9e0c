"""The results as one page of Markdown."""


def table(head: list[str], rows: list[list]) -> list[str]:
    cell = lambda value: str(value).replace("|", "\\|").replace("\n", " ")
    return ["", "| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(map(cell, row)) + " |" for row in rows)]


def machine(found: dict) -> list[str]:
    return table(["", ""], [[name, ", ".join(value) if isinstance(value, list) else value] for name, value in found.items() if name not in ("ok", "seconds")])


def tests(found: dict) -> list[str]:
    files: dict[str, list[dict]] = {}
    for one in found["tests"]:
        files.setdefault(one["test"].split("::")[0].rsplit("/", 1)[-1], []).append(one)
    count = lambda those, outcome: sum(one["outcome"] == outcome for one in those)
    lines = table(["file", "passed", "failed", "skipped"], [[name, *(count(those, outcome) for outcome in ("passed", "failed", "skipped"))] for name, those in files.items()])
    for title, outcome in (("Failed", "failed"), ("Skipped", "skipped")):
        those = [one for one in found["tests"] if one["outcome"] == outcome]
        if those:
            lines += ["", f"{title}:", "", *(f"- `{one['test'].split('::', 1)[-1]}`: {(one['reason'].strip().splitlines() or [''])[-1]}" for one in those)]
    if figures := found.get("figures"):
        lines += table([f"a training step, {figures['device']}", "", "times"], [[way, f"{took:.2f} ms", figures["ratios"][way]] for way, took in figures["milliseconds"].items()])
    return lines + (["", "Cut short: the time was over."] if found["cut_short"] else [])


def private_gpt(found: dict) -> list[str]:
    rows = []
    for one in found["cases"]:
        if "not_run" in one:
            rows.append([one["model"], "not run: " + one["not_run"], "", ""])
            continue
        told = "; ".join(f"{f['kind']} {' and '.join(f['devices'])}, cause {f['cause']}" for f in one["findings"]) or "none"
        rows.append([one["model"], told, f"exit code {one['fixed_exit_code']}, {one['fixed_findings']} findings", "same" if one["same_output_as_without"] else "differs"])
    return table(["model on", "findings", "repaired", "its output with and without"], rows)


def costs(found: dict) -> list[str]:
    ways = list(next(iter(found["microseconds"].values())))
    rows = [[what, *(f"{row[way]:.2f} µs ({row[way] / row['without']:.2f})" if way in row and "without" in row else "" for way in ways)] for what, row in found["microseconds"].items()]
    return table(["", *ways], rows) + ["", *(f"- {way}: {why}" for way, why in found["not_run"].items())]


def uses(found: dict) -> list[str]:
    outcome = lambda one: one.get("not_run") or ("as it should be" if one["ok"] else f"exit code {one['exit_code']}, findings: {'; '.join(one['findings']) or 'none'}")
    return table(["", ""], [[one["use"].replace("_", " "), outcome(one)] for one in found["uses"]])


def operators(found: dict) -> list[str]:
    answer = lambda one: (one["refused"] or "accepted") + (f" ({len(one['findings'])} findings)" if one["findings"] else "")
    lines = ["", f"{found['calls']} calls, {found['refused']} of them refused, {found['with_a_finding']} with a finding; {found['compared']} of {found['of']} compared with the simulated devices' answers."]
    if found["unexplained"]:
        lines += ["", "Refused without a finding, or found without a refusal: " + ", ".join(f"`{call}`" for call in found["unexplained"]) + "."]
    if found["different"]:
        lines += table(["call", "here", "simulated"], [[call, answer(both["here"]), answer(both["simulated"])] for call, both in found["different"].items()])
    return lines


PARTS = {"machine": machine, "tests": tests, "private_gpt": private_gpt, "uses": uses, "operators": operators, "costs": costs}


def page(results: dict) -> str:
    lines = [f"# devtrace on hardware, {results['date']}", "", f"{results['seconds']} s in all."]
    if results["steps"].get("machine", {}).get("simulated_devices"):
        lines += ["", "On simulated devices: this tries the bundle, and its figures say nothing of hardware."]
    for name, found in results["steps"].items():
        lines += ["", f"## {name}: {'as it should be' if found['ok'] else 'NOT as it should be'} ({found['seconds']} s)"]
        if "error" in found:
            lines += ["", "```", found["error"].strip(), "```"]
        elif name in PARTS:
            lines += PARTS[name](found)
    lines += ["", "## Not run", "", *(f"- {name}: {why}" for name, why in results["not_run"].items())]
    return "\n".join(lines) + "\n"
