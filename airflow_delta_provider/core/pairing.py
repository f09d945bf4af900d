"""Which column of the source meets which column of the target, and what the schemas themselves differ in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from airflow_delta_provider.core.errors import (
    SideNamesError,
    SpecColumnError,
    SpecEmptyError,
    SpecKeyError,
    SpecValueError,
    shown,
)
from airflow_delta_provider.core.spec import Spec
from airflow_delta_provider.core.types import KEEP_COLUMN, KEY_BYTES, REFUSED_COLUMN, LogicalType


class ColumnLike(Protocol):
    """What pairing needs to know of a column; ``adapters.side.Column`` is one."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> LogicalType | None: ...
    @property
    def engine_type(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Pair:
    """Two columns that meet: their names on each side. Documents use the target's name."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Pairing:
    """All columns of both sides, each in exactly one place.

    ``key``: key pairs in key order. ``values``: compared pairs in target order. ``excluded``: names as the contract
    lists them (the target's, or the source's where only the source has the column).
    ``added``: in target only. ``dropped``: in source only. Neither holds excluded columns.
    """

    key: tuple[Pair, ...]
    values: tuple[Pair, ...]
    excluded: tuple[str, ...]
    added: tuple[str, ...]
    dropped: tuple[str, ...]


class Names:
    """The columns of both sides under the chosen comparison of names, and their partners."""

    def __init__(self, source: Sequence[ColumnLike], target: Sequence[ColumnLike], spec: Spec) -> None:
        fold: Callable[[str], str] = str.casefold if spec.names == "case_insensitive" else str
        self.fold = fold
        self.source = _index("source", (column.name for column in source), fold)
        self.target = _index("target", (column.name for column in target), fold)
        self.partner: dict[str, str] = {}
        mapped_sources, mapped_targets = set(), set()
        for source_name, target_name in spec.column_map:
            first, second = self.source.get(fold(source_name)), self.target.get(fold(target_name))
            if first is None or second is None:
                side, missing = ("source", source_name) if first is None else ("target", target_name)
                raise SpecColumnError(f"columns.map: the {side} has no column {shown(missing)!r}.", where="columns.map")
            if first in mapped_sources or second in mapped_targets:
                twice = first if first in mapped_sources else second
                raise SpecValueError(f"columns.map names column {shown(twice)!r} twice.", where="columns.map")
            self.partner[first] = second
            mapped_sources.add(first)
            mapped_targets.add(second)
        for folded, name in self.source.items():
            twin = self.target.get(folded)
            if twin is not None and name not in mapped_sources and twin not in mapped_targets:
                self.partner[name] = twin
        self.origin = {target_name: source_name for source_name, target_name in self.partner.items()}

    def find(self, name: str, where: str) -> tuple[str | None, str | None]:
        """Return the (source, target) columns that a name of the specification means; one may be None.

        A name is the source's; a name that only the target has means the target's. Raises: SpecColumnError.
        """
        source_name = self.source.get(self.fold(name))
        if source_name is not None:
            return source_name, self.partner.get(source_name)
        target_name = self.target.get(self.fold(name))
        if target_name is None:
            raise SpecColumnError(f"{where}: neither side has a column {shown(name)!r}.", where=where)
        return self.origin.get(target_name), target_name

    def documented(self, name: str, where: str) -> str:
        """Return the name under which documents speak of a column: the target's, else the source's.

        Raises: SpecColumnError, also where that name would mean another column of the target.
        """
        source_name, target_name = self.find(name, where)
        if target_name is not None:
            return target_name
        if source_name in self.origin:
            raise SpecColumnError(
                f"{where}: {shown(name)!r} is a column of the source without a partner, and the target's column of that"
                f" name is the partner of {shown(self.origin[source_name])!r}.",
                where=where,
            )
        return str(source_name)


def pair_columns(
    names: Names,
    target: Sequence[ColumnLike],
    spec: Spec,
    *,
    ignored: Iterable[str] = (),
    primary_keys: tuple[Sequence[str], Sequence[str]] = ((), ()),
) -> Pairing:
    """Pair the columns of both sides.

    ``ignored``: further names to exclude (columns under an ``ignore`` rule). ``primary_keys``: as declared by
    (source, target), for a specification without ``key``.
    Raises: SpecColumnError, SpecKeyError, SpecEmptyError, SpecValueError, SideNamesError.
    """
    key = _key_pairs(names, spec, primary_keys)
    excluded = {names.documented(name, "columns.exclude") for name in (*spec.exclude, *ignored)}
    key_targets = {pair.target for pair in key}
    both = sorted(excluded & key_targets)
    if both:
        raise SpecValueError(f"column {shown(both[0])!r} is a key and excluded.", where="columns.exclude")
    values = tuple(
        Pair(names.origin[column.name], column.name)
        for column in target
        if column.name in names.origin and column.name not in excluded and column.name not in key_targets
    )
    for pair in (*key, *values):
        _refuse_kept_name("source", pair.source)
        _refuse_kept_name("target", pair.target)
    added = tuple(name for name in names.target.values() if name not in names.origin and name not in excluded)
    dropped = tuple(name for name in names.source.values() if name not in names.partner and name not in excluded)
    return Pairing(key, values, tuple(sorted(excluded, key=str.encode)), added, dropped)


def _key_pairs(names: Names, spec: Spec, primary_keys: tuple[Sequence[str], Sequence[str]]) -> tuple[Pair, ...]:
    wanted = list(spec.key)
    if not wanted:
        source_key, target_key = primary_keys
        partners = [names.partner.get(name) for name in source_key]
        if not source_key or partners != list(target_key):
            raise SpecKeyError("key is missing.", where="key")
        wanted = list(source_key)
    pairs = []
    for name in wanted:
        source_name, target_name = names.find(name, "key")
        if source_name is None or target_name is None:
            side = "source" if source_name is None else "target"
            raise SpecColumnError(f"key: the {side} has no partner for column {shown(name)!r}.", where="key")
        pairs.append(Pair(source_name, target_name))
    if len({pair.target for pair in pairs}) != len(pairs):
        raise SpecValueError("key names a column twice.", where="key")
    if not pairs:
        raise SpecEmptyError("the key has no column.", where="key")
    return tuple(pairs)


def _refuse_kept_name(side: str, name: str) -> None:
    if name in (KEEP_COLUMN, KEY_BYTES, REFUSED_COLUMN):
        raise SideNamesError(
            f"{side}: a read adds a column named {shown(name)!r} of its own; exclude that column, or read it in a query"
            " under another name.",
            where=side,
        )


def _index(side: str, columns: Iterable[str], fold: Callable[[str], str]) -> dict[str, str]:
    index: dict[str, str] = {}
    for name in columns:
        if fold(name) in index:
            raise SideNamesError(
                f"{side}: columns {shown(index[fold(name)])!r} and {shown(name)!r} have one name.", where=side
            )
        index[fold(name)] = name
    return index


def structure_findings(
    pairing: Pairing, source: Sequence[ColumnLike], target: Sequence[ColumnLike]
) -> list[tuple[str, str, str | None, str | None]]:
    """Return the findings of the structure document: (column, kind, source type text, target type text)."""
    source_types = {column.name: type_text(column) for column in source}
    target_types = {column.name: type_text(column) for column in target}
    return [
        *((name, "column_added", None, target_types[name]) for name in pairing.added),
        *((name, "column_dropped", source_types[name], None) for name in pairing.dropped),
        *(
            (pair.target, "type_changed", source_types[pair.source], target_types[pair.target])
            for pair in (*pairing.key, *pairing.values)
            if source_types[pair.source] != target_types[pair.target]
        ),
    ]


def type_text(column: ColumnLike) -> str:
    """Return a column's type as the structure document writes it; an unmapped type under its engine's name."""
    return column.type.text if column.type is not None else column.engine_type
