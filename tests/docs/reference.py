"""Writes docs/reference/ from the code: ``python tests/docs/reference.py`` after an operator, option or field has changed."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "reference"
PACKAGE = "airflow_delta_provider"
NOTE = "Written by `tests/docs/reference.py` from the code; do not edit.\n"
OPERATORS = (
    "shards.PlanShardsOperator",
    "shards.CompareShardOperator",
    "shards.BuildSubManifestOperator",
    "shards.MergeManifestOperator",
    "manifests.VerifyManifestOperator",
    "manifests.CheckManifestOperator",
    "patches.PlanPatchOperator",
    "approvals.ApprovePatchOperator",
    "patches.ApplyPatchOperator",
    "patches.RollbackPatchOperator",
    "sweeps.PlanSweepOperator",
    "sweeps.SweepGenerationOperator",
    "sweeps.MergeSweepOperator",
)
FACTORIES = ("task_groups.reconcile", "task_groups.reconcile_and_patch", "task_groups.sweep", "assets.manifest_asset")
SENSORS = ("migration.MigrationSensor", "manifest.ManifestSensor", "replica.ReplicaCaughtUpSensor")
TRIGGERS = (
    "migration.MigrationTrigger",
    "migration.MigrationAppliedTrigger",
    "manifest.ManifestTrigger",
    "replica.ReplicaTrigger",
)
HOOKS = ("store.DeltaStoreHook", "signer.DeltaSignerHook")
_FIELD = re.compile(
    r"^:(?P<kind>param (?P<name>\w+)|return|raises (?P<error>\w+)): (?P<text>.*?)(?=^:|\Z)", re.M | re.S
)
_SHARED = {
    "group_id": "id of the group.",
    "store_conn_id": "connection of type ``delta_store``.",
    "trust": "file with the trust document, or with one public key in PEM; without it the one that the connection names.",
}
"""What parameters mean that several take and not each explains."""
_LATER = "what its base of Airflow takes (`task_id`, `retries`, `pool`, ...)"


def find(path: str) -> Any:
    """Return what a dotted path below the package names."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(f"{PACKAGE}.{module}"), name)


def prose(text: str) -> str:
    """Return the text of a docstring as Markdown: one line a paragraph, one kind of quote."""
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text.replace("``", "`").strip())]
    return "\n\n".join(part for part in paragraphs if part)


def cell(text: str) -> str:
    """Return a text as a cell of a table."""
    return prose(text).replace("\n\n", " ").replace("|", "\\|")


def bases(kind: type) -> Iterator[type]:
    """Yield a class and those of ours that it is made from."""
    yield from (one for one in kind.__mro__ if one.__module__.startswith(PACKAGE))


def explained(kind: Any) -> dict[str, str]:
    """Return what docstrings say of each parameter, the nearest one first."""
    found: dict[str, str] = {}
    for one in bases(kind) if inspect.isclass(kind) else [kind]:
        for match in _FIELD.finditer(inspect.cleandoc(one.__doc__ or "")):
            if match["name"]:
                found.setdefault(match["name"], match["text"])
    return found


def parameters(kind: Any) -> list[tuple[str, str]]:
    """Return the parameters and their defaults, own ones first; ``required`` where there is none."""
    made: dict[str, str] = {}
    for one in bases(kind) if inspect.isclass(kind) else [kind]:
        call = one.__init__ if inspect.isclass(one) else one
        if inspect.isclass(one) and "__init__" not in vars(one):
            continue
        for name, parameter in inspect.signature(call).parameters.items():
            if name == "self" or parameter.kind is parameter.VAR_KEYWORD:
                continue
            default = "required" if parameter.default is parameter.empty else f"`{_shown(parameter.default)}`"
            made.setdefault(name, default)
    return list(made.items())


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value)


def entry(path: str, *, of_airflow: bool = True) -> str:
    """Return the part of a page about one class or function."""
    kind = find(path)
    text = inspect.cleandoc(kind.__doc__ or "")
    said = explained(kind)
    lines = [f"## {kind.__name__}", "", f"`from {kind.__module__} import {kind.__name__}`", ""]
    lines += [prose(_FIELD.sub("", text)), ""]
    rows = [
        f"| `{name}` | {default} | {cell(said.get(name) or _SHARED.get(name, 'as of its base of Airflow.'))} |"
        for name, default in parameters(kind)
    ]
    if rows:
        lines += ["| parameter | default | meaning |", "| --- | --- | --- |", *rows, ""]
    if of_airflow:
        lines += [f"And {_LATER}.", ""]
    for match in _FIELD.finditer(text):
        if not match["name"]:
            label = "Returns" if match["kind"] == "return" else f"Raises `{match['error']}`"
            lines += [f"{label}: {cell(match['text'])}", ""]
    return "\n".join(lines)


def operators() -> str:
    """Return the page of operators and task groups."""
    head = f"# Operators and task groups\n\n{NOTE}\n"
    head += (
        "Most Dags need a task group and `CheckManifestOperator`; the other operators are what the groups are made of. "
    )
    head += "*(templated)* parameters are rendered by Airflow.\n\n"
    groups = "\n".join(entry(path, of_airflow=False) for path in FACTORIES)
    return head + groups + "\n" + "\n".join(entry(f"operators.{path}") for path in OPERATORS)


def sensors() -> str:
    """Return the page of sensors, triggers and the notifier."""
    head = f"# Sensors and triggers\n\n{NOTE}\n[What they wait for](../sensors.md), in words.\n\n"
    waiting = "\n".join(entry(f"sensors.{path}") for path in SENSORS)
    watching = "\n".join(entry(f"triggers.{path}", of_airflow=False) for path in TRIGGERS)
    return head + waiting + "\n" + watching + "\n" + entry("notifications.manifest.ManifestNotifier", of_airflow=False)


def connections() -> str:
    """Return the page of hooks and connection types."""
    info = find("get_provider_info.get_provider_info")()
    lines = [f"# Hooks and connections\n\n{NOTE}"]
    for path, form in zip(HOOKS, info["connection-types"], strict=True):
        lines += [entry(f"hooks.{path}", of_airflow=False)]
        behaviour = form["ui-field-behaviour"]
        lines += [f"Connection type `{form['connection-type']}`, in Airflow's form:", ""]
        lines += ["| field | label | example |", "| --- | --- | --- |"]
        shown = behaviour["placeholders"]
        for name in ("host", "login", "password", "extra"):
            if name not in behaviour["hidden-fields"]:
                label = behaviour["relabeling"].get(name, name.capitalize())
                example = f"`{shown[name]}`" if name in shown else ""
                lines += [f"| `{name}` | {label} | {example} |"]
        for name, field in form.get("conn-fields", {}).items():
            lines += [f"| extra `{name}` | {field['label']} | {field['description']} |"]
        lines += [""]
    sides = find("hooks.sides.OPENERS")
    lines += ["## Connections of sides", "", "A side with a `conn_id` takes a connection of one of these types:", ""]
    lines += [f"- `{name}`" for name in sorted(sides)]
    lines += [
        "",
        "or of any other whose hook gives an SQLAlchemy address of an [engine that is read](../engines.md).",
        "",
    ]
    return "\n".join(lines)


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        names = ", ".join(f"`{name}`" for name in action.option_strings) or f"`{action.metavar or action.dest}`"
        taken = action.metavar if isinstance(action.metavar, str) else None
        if action.option_strings and action.nargs != 0:
            values = "\\|".join(map(str, action.choices)) if action.choices else taken or action.dest.upper()
            names += f" `{values}`" if action.nargs is None else f" `{values}` (twice)"
        need = "" if not action.option_strings or not action.required else " (required)"
        yield f"| {names}{need} | {(action.help or '').replace('|', chr(92) + '|')} |"


def command_line() -> str:
    """Return the page of the command line."""
    parser = find("cli.parser.build_parser")()
    (commands,) = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    lines = [f"# Command line\n\n{NOTE}", "`airflow-delta COMMAND --help` says the same. Exit codes: ", ""]
    lines += ["| code | `run` | `verify`, `check-proof` | other commands |", "| --- | --- | --- | --- |"]
    lines += ["| 0 | no discrepancy | verified | done |", "| 1 | discrepancies | a finding | a finding |"]
    lines += ["| 2 | refused | wrong usage | refused |", "| 3 | could not read or write | could not read | could not read or write |"]  # fmt: skip
    lines += ["| 4 | | unsigned or untrusted | |", ""]
    for name, command in commands.choices.items():
        lines += [f"## {name}", "", f"{str(command.description)[:1].upper()}{str(command.description)[1:]}.", ""]
        lines += ["| argument | meaning |", "| --- | --- |", *_options(command), ""]
    return "\n".join(lines)


def fields() -> str:
    """Return the page that lists what a specification may hold, as the parser has it."""
    spec, rules = import_module(f"{PACKAGE}.core.spec"), import_module(f"{PACKAGE}.core.documents.rules")
    lines = [f"# Fields that a specification may have\n\n{NOTE}"]
    lines += [
        "What the parser takes; everything else is refused by name (`DELTA_SPEC_FIELD`). What each field means stands in"
    ]
    lines += ["[the specification](../specification.md), what each rule means in [the contract](../contract.md).", ""]
    lines += ["## At the top", "", *(f"- `{name}`" for name in sorted(spec._FIELDS)), ""]
    lines += ["## Rules", "", "| rule | its members |", "| --- | --- |"]
    lines += [f"| `{name}` | {_names(members)} |" for name, members in rules.RULE_MEMBERS.items()]
    lines += ["", "`read_as` has more members by its `type`:", "", "| type | members |", "| --- | --- |"]
    lines += [f"| `{name}` | {_names(members)} |" for name, members in rules.READ_AS_MEMBERS.items()]
    lines += ["", f"Steps of `normalize`: {_names(rules.STEPS)}.", ""]
    lines += [f"Values of `strategy`: {_names(spec.STRATEGIES)}.", ""]
    return "\n".join(lines)


def _names(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)


PAGES: dict[str, Callable[[], str]] = {
    "operators": operators,
    "sensors": sensors,
    "connections": connections,
    "command-line": command_line,
    "fields": fields,
}


def page(name: str) -> str:
    """Return the text of one page."""
    return PAGES[name]().rstrip() + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in PAGES:
        (FOLDER / f"{each}.md").write_text(page(each), encoding="utf-8")
