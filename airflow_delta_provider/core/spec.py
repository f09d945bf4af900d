"""The specification of one reconciliation: read exactly, checked field by field, refused by name (docs/contract.md, 5)."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from airflow_delta_provider.core.errors import (
    InputPathError,
    SpecEnvError,
    SpecFieldError,
    SpecSyntaxError,
    SpecValueError,
    shown,
)
from airflow_delta_provider.core.manners import Limits, Manners, limits_of, manners_of
from airflow_delta_provider.core.specfields import (
    choice_of,
    duration_s,
    int_of,
    known,
    literals_of,
    member_map,
    text_of,
    texts_of,
    version_of,
)

NAME = re.compile(r"[a-z0-9_-]{1,64}")
SPEC_BYTES_MAX = 1024 * 1024
INLINE_LIMIT = 65_536
SHARD_ROWS = 2_000_000
RESUMES = ("run", "proved")
STRATEGIES = ("auto", "stream", "fingerprint", "fast")
ENV = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_FIELDS = {
    "name", "schema_version", "contract_version", "source", "target", "key", "keys", "columns", "filter", "key_range",
    "rules", "csv", "jsonl", "shards", "detail", "sensitive", "recheck", "strategy", "hmac", "inline_limit", "limits", "manners", "resume",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SideSpec:
    """One side as a specification gives it; exactly one of ``uri``, ``conn_id`` and ``path`` is set.

    ``uri`` and ``path`` may hold ``${ENV}``, which only ``expanded`` replaces, so that a stored form holds no secret.
    """

    label: str = ""
    uri: str | None = field(default=None, repr=False)
    conn_id: str | None = None
    path: str | None = None
    table: str | None = None
    query: str | None = None
    options: dict[str, Any] = field(default_factory=dict, hash=False)
    """How a text file is to be read: the ``csv`` or ``jsonl`` member of the specification."""

    def expanded(self, environ: Mapping[str, str] | None = None) -> SideSpec:
        """Return the side with each ``${ENV}`` replaced. Raises: SpecEnvError."""
        return SideSpec(
            self.label,
            uri=_expand(self.uri, os.environ if environ is None else environ),
            conn_id=self.conn_id,
            path=_expand(self.path, os.environ if environ is None else environ),
            table=self.table,
            query=self.query,
            options=self.options,
        )

    def form(self) -> dict[str, str]:
        """Return the members that are set, as a specification writes them."""
        names = ("label", "uri", "conn_id", "path", "table", "query")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


@dataclass(frozen=True, slots=True)
class Spec:
    """One specification with every default written out.

    ``source`` is None for a generation sweep. ``rules`` is as written; core/rules normalises it against the columns.
    ``form`` is the parsed file itself, for the stored shard.
    """

    name: str
    schema_version: str
    contract_version: str
    source: SideSpec | None
    target: SideSpec
    key: tuple[str, ...] = ()
    nulls: str = "refuse"
    duplicates: str = "refuse"
    column_map: tuple[tuple[str, str], ...] = ()
    exclude: tuple[str, ...] = ()
    names: str = "exact"
    filter_source: str | None = None
    filter_target: str | None = None
    filter_shared: bool = True
    key_from: tuple[Any, ...] | None = None
    key_to: tuple[Any, ...] | None = None
    rules: dict[str, Any] = field(default_factory=dict)
    csv: dict[str, Any] = field(default_factory=dict)
    jsonl: dict[str, Any] = field(default_factory=dict)
    shard_rows: int = SHARD_ROWS
    shard_count: int | None = None
    shard_bounds: tuple[tuple[Any, ...], ...] | None = None
    detail: str = "values"
    sensitive: tuple[str, ...] = ()
    recheck_attempts: int = 0
    recheck_delay_s: float = 0.0
    strategy: str = "auto"
    hmac: dict[str, str] = field(default_factory=dict)
    inline_limit: int = INLINE_LIMIT
    limits: Limits = field(default_factory=Limits)
    manners: dict[str, Manners] = field(default_factory=dict)
    resume: str = "run"
    form: dict[str, Any] = field(default_factory=dict, repr=False)


def load_spec(path: str | Path, *, sweep: bool = False) -> Spec:
    """Read a specification file (YAML or JSON).

    Raises: InputPathError, SpecSyntaxError, SpecFieldError, SpecValueError.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(SPEC_BYTES_MAX + 1)
    except OSError as error:
        raise InputPathError(f"specification {path}: {error.strerror}.", where=str(path)) from error
    if len(data) > SPEC_BYTES_MAX:
        raise SpecSyntaxError(f"{path} is larger than {SPEC_BYTES_MAX} bytes.", where=str(path))
    return parse_spec(parse_yaml(data, str(path)), sweep=sweep)


def parse_yaml(data: bytes, where: str) -> dict[str, Any]:
    """Read YAML in which numbers with a fraction stay text, only true and false are booleans, and no member repeats."""
    import yaml

    from airflow_delta_provider.core.spec_yaml import ExactLoader

    try:
        form = yaml.load(data, Loader=ExactLoader)
    except (yaml.YAMLError, ValueError) as error:
        raise SpecSyntaxError(f"{where}: {' '.join(str(error).split())}.", where=where) from error
    except RecursionError as error:
        raise SpecSyntaxError(f"{where} is nested too deeply.", where=where) from error
    if not isinstance(form, dict):
        raise SpecSyntaxError(f"{where} holds no map.", where=where)
    return form


def parse_spec(form: Mapping[str, Any], *, sweep: bool = False) -> Spec:
    """Check one parsed specification and write its defaults out. Raises: SpecFieldError, SpecValueError."""
    known(form, _FIELDS, "")
    if sweep and "source" in form:
        raise SpecFieldError("a sweep compares with the predecessor generation and takes no source.", where="source")
    required = ("name", "target") if sweep else ("name", "source", "target")
    for name in required:
        if form.get(name) is None:
            raise SpecFieldError(f"{name} is missing.", where=name)
    name = text_of(form, "name")
    if not NAME.fullmatch(name):
        raise SpecValueError(
            f"name {shown(name)!r} has other characters than a-z 0-9 _ - or more than 64.", where="name"
        )
    version = version_of(form, "schema_version", "1")
    keys = member_map(form, "keys", {"nulls", "duplicates"})
    columns = member_map(form, "columns", {"map", "exclude", "names"})
    filters = _filters(form.get("filter"))
    key_range = member_map(form, "key_range", {"from", "to"})
    shards = _shards(form)
    recheck = member_map(form, "recheck", {"attempts", "delay"})
    return Spec(
        name=name,
        schema_version=version,
        contract_version=version_of(form, "contract_version", version),
        source=None if sweep else _side(form, "source"),
        target=_side(form, "target"),
        key=texts_of(form, "key"),
        nulls=choice_of(keys, "nulls", ("refuse", "set_aside", "match"), "keys.nulls"),
        duplicates=choice_of(keys, "duplicates", ("refuse", "set_aside"), "keys.duplicates"),
        column_map=_column_map(columns.get("map")),
        exclude=texts_of(columns, "exclude", "columns.exclude"),
        names=choice_of(columns, "names", ("exact", "case_insensitive"), "columns.names"),
        filter_source=filters[0],
        filter_target=filters[1],
        filter_shared=filters[2],
        key_from=literals_of(key_range.get("from"), "key_range.from"),
        key_to=literals_of(key_range.get("to"), "key_range.to"),
        rules=member_map(form, "rules", None),
        csv=member_map(form, "csv", {"nulls", "trim_header", "types", "delimiter", "quote", "encoding", "compression"}),
        jsonl=member_map(form, "jsonl", {"types", "compression"}),
        shard_rows=shards[0],
        shard_count=shards[1],
        shard_bounds=shards[2],
        detail=choice_of(form, "detail", ("values", "digests", "keys", "counts"), "detail"),
        sensitive=texts_of(form, "sensitive"),
        recheck_attempts=int_of(recheck, "attempts", 0, 0, 100, "recheck.attempts") or 0,
        recheck_delay_s=duration_s(recheck.get("delay", "PT0S"), "recheck.delay"),
        strategy=choice_of(form, "strategy", STRATEGIES, "strategy"),
        hmac=_hmac(form),
        inline_limit=int_of(form, "inline_limit", INLINE_LIMIT, 1, 2**31, "inline_limit") or INLINE_LIMIT,
        limits=limits_of(form),
        manners=manners_of(form),
        resume=choice_of(form, "resume", RESUMES, "resume"),
        form=dict(form),
    )


def default_label(side: SideSpec) -> str:
    """Return the label of a side that has none (docs/contract.md, 5)."""
    if side.query is not None:
        return "query:" + hashlib.sha256(side.query.encode()).hexdigest()[:16]
    if side.path is not None:
        return side.path.rstrip("/").rsplit("/", 1)[-1]
    if side.uri is not None:
        return f"{side.uri.split(':', 1)[0]}:{side.table}"
    return f"{side.conn_id}:{side.table}"


def _side(form: Mapping[str, Any], name: str) -> SideSpec:
    given = member_map(form, name, {"label", "uri", "conn_id", "path", "table", "query"})
    for member, value in given.items():
        if not isinstance(value, str) or not value:
            raise SpecValueError(f"{name}.{member} is no text.", where=f"{name}.{member}")
    places = [member for member in ("uri", "conn_id", "path") if member in given]
    if len(places) != 1:
        raise SpecFieldError(f"{name} needs exactly one of uri, conn_id and path.", where=name)
    relations = [member for member in ("table", "query") if member in given]
    if (places[0] == "path" and relations) or (places[0] != "path" and len(relations) != 1):
        need = "takes neither table nor query" if places[0] == "path" else "needs exactly one of table and query"
        raise SpecFieldError(f"{name} with {places[0]} {need}.", where=name)
    side = SideSpec(label="", **{member: value for member, value in given.items() if member != "label"})
    label = given.get("label") or default_label(side)
    return replace(side, label=label)


def _expand(text: str | None, environ: Mapping[str, str]) -> str | None:
    if text is None:
        return None

    def value(match: re.Match[str]) -> str:
        if match[1] not in environ:
            raise SpecEnvError(f"environment variable {match[1]} is not set.", where=match[1])
        return environ[match[1]]

    return ENV.sub(value, text)


def _column_map(value: Any) -> tuple[tuple[str, str], ...]:
    if value is None:
        return ()
    where = "columns.map"
    if not isinstance(value, Mapping) or not value:
        raise SpecValueError(f"{where} is no map of source name to target name.", where=where)
    if not all(isinstance(a, str) and isinstance(b, str) and a and b for a, b in value.items()):
        raise SpecValueError(f"{where} holds something else than names.", where=where)
    if len(set(value.values())) != len(value):
        raise SpecValueError(f"{where} names one target column twice.", where=where)
    return tuple(value.items())


def _filters(value: Any) -> tuple[str | None, str | None, bool]:
    if value is None:
        return None, None, True
    if isinstance(value, str):
        if not value.strip():
            raise SpecValueError("filter is empty.", where="filter")
        return value.strip(), value.strip(), True
    both = member_map({"filter": value}, "filter", {"source", "target"})
    for name, text in both.items():
        if text is not None and (not isinstance(text, str) or not text.strip()):
            raise SpecValueError(f"filter.{name} is no expression.", where=f"filter.{name}")
    source, target = both.get("source"), both.get("target")
    return (source.strip() if source else None), (target.strip() if target else None), False


def _shards(form: Mapping[str, Any]) -> tuple[int, int | None, tuple[tuple[Any, ...], ...] | None]:
    given = member_map(form, "shards", {"rows", "count", "bounds"})
    if len(given) > 1:
        raise SpecFieldError("shards takes one of rows, count and bounds.", where="shards")
    rows = int_of(given, "rows", SHARD_ROWS, 1, 2**53 - 1, "shards.rows") or SHARD_ROWS
    count = int_of(given, "count", None, 1, 1_000_000, "shards.count")
    bounds = given.get("bounds")
    if bounds is None:
        return rows, count, None
    if not isinstance(bounds, list) or not bounds:
        raise SpecValueError("shards.bounds is no list of keys.", where="shards.bounds")
    if any(bound is None for bound in bounds):
        raise SpecValueError("shards.bounds holds something else than lists of key values.", where="shards.bounds")
    return rows, count, tuple(literals_of(bound, "shards.bounds") or () for bound in bounds)


def _hmac(form: Mapping[str, Any]) -> dict[str, str]:
    given = member_map(form, "hmac", {"conn_id", "env"})
    if given and (len(given) != 1 or not all(isinstance(value, str) and value for value in given.values())):
        raise SpecFieldError("hmac takes one of conn_id and env.", where="hmac")
    return given
