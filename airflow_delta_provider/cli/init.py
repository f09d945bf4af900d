"""``init``: an annotated specification from two addresses, with key, types and pairing as they were found."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import BinaryIO

from airflow_delta_provider.adapters.open import FILE_SCHEMES, open_side
from airflow_delta_provider.adapters.side import Column, Side
from airflow_delta_provider.cli.files import write_output
from airflow_delta_provider.core.equality import schema_type
from airflow_delta_provider.core.errors import SpecColumnError, SpecFieldError, SpecKeyError, SpecValueError, shown
from airflow_delta_provider.core.spec import NAME, SideSpec, default_label, parse_spec, parse_yaml
from airflow_delta_provider.core.types import KEY_KINDS

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_USERINFO = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*://[^/?#@]*?):([^/?#]*)@")
_SECRET = re.compile(r"([?&](?:password|sslpassword|passwd|pwd|token|secret)=)([^&#]*)", re.IGNORECASE)
_ENV = re.compile(r"(\$\{[A-Za-z_][A-Za-z0-9_]*\})+")
TYPED_FILES = ("csv", "jsonl")


@dataclass(frozen=True, slots=True)
class _Given:
    """One side as the command line gave it: the address to open, and the one that may be written down."""

    spec: SideSpec
    written: str
    secrets: tuple[str, ...]


def init(arguments: argparse.Namespace) -> int:
    """Write a specification. Exit: 0 done."""
    source = _given("source", arguments.source, arguments.source_table)
    target = _given("target", arguments.target, arguments.target_table)
    with ExitStack() as stack:
        opened = [stack.enter_context(closing(open_side(side.spec.expanded()))) for side in (source, target)]
        text = _text(arguments, source, target, opened[0], opened[1])
    parse_spec(parse_yaml(text.encode(), "the new specification"))
    write_output(arguments.output, lambda file: _write(file, text), overwrite=False)
    for side in (source, target):
        for name in side.secrets:
            print(f"set {name} to the password as it stood in the address; it is not written down", file=sys.stderr)
    return 0


def _write(file: BinaryIO, text: str) -> None:
    file.write(text.encode())


def _given(side: str, address: str, table: str | None) -> _Given:
    """Return a side from its address. Passwords are kept for opening, and become a reference for writing."""
    scheme = _SCHEME.match(address)
    if scheme is None or scheme[1].lower() in FILE_SCHEMES:
        if table is not None:
            raise SpecFieldError(f"--{side}-table: a side of files has no table.", where=f"{side}.table")
        return _Given(SideSpec(path=address), address, ())
    if not table:
        raise SpecFieldError(f"--{side}-table is missing: which table of the database?", where=f"{side}.table")
    written, secrets = without_secrets(address, f"DELTA_{side.upper()}")
    return _Given(SideSpec(uri=address, table=table), written, secrets)


def without_secrets(uri: str, prefix: str) -> tuple[str, tuple[str, ...]]:
    """Return an address with each password replaced by ``${<prefix>_PASSWORD}``, and the names of those variables."""
    names: list[str] = []

    def reference(secret: str) -> str:
        if not secret or _ENV.fullmatch(secret):
            return secret
        names.append(f"{prefix}_PASSWORD" + (f"_{len(names) + 1}" if names else ""))
        return f"${{{names[-1]}}}"

    uri = _USERINFO.sub(lambda match: f"{match[1]}:{reference(match[2])}@", uri)
    uri = _SECRET.sub(lambda match: match[1] + reference(match[2]), uri)
    return uri, tuple(names)


def _text(arguments: argparse.Namespace, given_source: _Given, given_target: _Given, source: Side, target: Side) -> str:
    mine = {column.name: column for column in source.columns}
    other = {column.name: column for column in target.columns}
    key, why = _key(arguments.key, source, target, mine, other)
    name = arguments.name or _name(given_target)
    if not NAME.fullmatch(name):
        raise SpecValueError(
            f"--name {shown(name)!r} has other characters than a-z 0-9 _ - or more than 64.", where="name"
        )
    lines = [
        "# A specification for airflow-delta: `airflow-delta check` shows what it means, `run` compares.",
        f"name: {quoted(name)}  # names the log in the store",
        'schema_version: "1"  # raise it when columns or types change: record ids depend on it',
        *_side_lines("source", given_source, source, "held to be true"),
        *_side_lines("target", given_target, target, "under test; a patch writes here"),
        f"key: [{', '.join(map(quoted, key))}]  # {why}",
        "keys: {nulls: refuse, duplicates: refuse}  # or set_aside; nulls also match",
        "",
        *_pairing_lines(mine, other, key),
        *_typing_lines(source, target, mine, other),
        "# filter: \"status <> 'draft'\"  # one boolean expression; rows for which it is not true are counted as skipped",
        '# rules: {"*": [{normalize: [nfc]}], some_column: [{tolerance: {abs: "0.01"}}]}',
        "# sensitive: [some_column]  # values appear only as keyed digests; needs hmac: {env: NAME}",
        "# limits: {max_discrepancies: 1000000}",
    ]
    return "\n".join(lines) + "\n"


def _side_lines(side: str, given: _Given, opened: Side, what: str) -> list[str]:
    kind = "path" if given.spec.path is not None else "uri"
    rows = opened.estimate_rows()
    about = f", about {rows} rows" if rows is not None else ""
    lines = [f"{side}:  # {what}: {opened.kind}{about}", f"  {kind}: {quoted(given.written)}"]
    if given.spec.table is not None:
        lines.append(f"  table: {quoted(given.spec.table)}")
    label = default_label(given.spec)
    return [*lines, f"  label: {quoted(label)}  # stands in the manifest; a part of the pair's identity"]


def _key(
    asked: str | None, source: Side, target: Side, mine: dict[str, Column], other: dict[str, Column]
) -> tuple[list[str], str]:
    """Return the key columns by the source's names, and where they come from.

    Raises: SpecKeyError where none is asked for and none is declared; SpecColumnError for a column that a side lacks.
    """
    if asked is not None:
        key = [name.strip() for name in asked.split(",") if name.strip()]
        for name in key:
            for side, columns in (("source", mine), ("target", other)):
                if name not in columns:
                    raise SpecColumnError(f"--key: the {side} has no column {shown(name)!r}.", where="key")
        if key:
            return key, "as given"
    for side, declared in (("source", source.primary_key), ("target", target.primary_key)):
        if declared and all(name in mine and name in other for name in declared):
            same = source.primary_key == target.primary_key
            return list(declared), "the primary key of both sides" if same else f"the primary key of the {side}"
    fitting = [name for name in mine if name in other and _may_be_key(mine[name]) and _may_be_key(other[name])]
    listed = ", ".join(shown(name) for name in fitting[:20]) or "none"
    raise SpecKeyError(f"No primary key is declared; give --key. Columns that both sides have: {listed}.", where="key")


def _may_be_key(column: Column) -> bool:
    return column.type is None or column.type.kind in KEY_KINDS


def _pairing_lines(mine: dict[str, Column], other: dict[str, Column], key: Sequence[str]) -> list[str]:
    lines = ["# Columns, source -> target, paired by name:"]
    for name, column in other.items():
        if name in mine:
            mark = " (key)" if name in key else ""
            lines.append(
                f"#   {shown(name)}{mark}: {_type(mine[name])} -> {_type(column)}{_advice(mine[name], column)}"
            )
    for side, only in (
        ("source", [n for n in mine if n not in other]),
        ("target", [n for n in other if n not in mine]),
    ):
        columns = mine if side == "source" else other
        lines += [f"#   {shown(name)}: {_type(columns[name])}, in the {side} only: not compared" for name in only]
    lines.append("columns:")
    odd = [name for name, column in other.items() if name in mine and name not in key and not _fits(mine[name], column)]
    if odd:
        lines.append("  # These cannot be compared as they are; take one out of the list once a rule makes them alike.")
        lines.append(f"  exclude: [{', '.join(map(quoted, odd))}]")
    lines.append("  names: exact  # or case_insensitive")
    lines.append("  # map: {source_name: target_name}")
    return [*lines, ""]


def _fits(one: Column, other: Column) -> bool:
    if one.untyped or other.untyped:
        return True
    return one.type is not None and other.type is not None and schema_type(one.type, other.type) is not None


def _advice(one: Column, other: Column) -> str:
    if _fits(one, other):
        return ""
    advice = one.advice or other.advice or "a read_as rule may make them comparable"
    return f"  CANNOT BE COMPARED: {_plain(advice)}"


def _type(column: Column) -> str:
    if column.untyped:
        return "untyped"
    return _plain(column.type.text if column.type is not None else column.engine_type)


def _typing_lines(source: Side, target: Side, mine: dict[str, Column], other: dict[str, Column]) -> list[str]:
    """Return the member that types the columns of text files where no side declares a type."""
    kinds = [side.kind for side in (source, target) if side.kind in TYPED_FILES]
    if not kinds:
        return []
    unknown = [name for name, column in other.items() if name in mine and column.untyped and mine[name].untyped]
    if not unknown:
        return [f"# {kinds[0]}: columns of text files take the types of the other side", ""]
    return [
        "# No side says what these columns hold: they are compared as text. Give types, such as int, decimal, timestamp.",
        f"# {kinds[0]}:",
        "#   types:",
        *(f"#     {quoted(name)}: text" for name in unknown),
        "",
    ]


def _name(given: _Given) -> str:
    words = given.spec.table or given.written.rstrip("/").rsplit("/", 1)[-1].split(".")[0]
    name = re.sub(r"[^a-z0-9_-]+", "_", words.rpartition(".")[2].lower()).strip("_")
    return name[:64] or "pair"


def _plain(text: str) -> str:
    """Return a text as a comment may hold it: on one line."""
    return "".join(char if char.isprintable() else " " for char in text)


def quoted(text: str) -> str:
    """Return a text as a double-quoted scalar of YAML, on one line and printable."""
    shown_text = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else _escaped(ord(char)) for char in shown_text) + '"'


def _escaped(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
