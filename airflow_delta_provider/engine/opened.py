"""Open both sides of a specification and fix everything that every shard shares: columns, types, rules, documents."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from airflow_delta_provider.adapters.side import Order, RangeCost, Request, Side
from airflow_delta_provider.core import documents, ids, rules
from airflow_delta_provider.core.errors import HmacKeyError, RangeError, SpecEnvError, SpecValueError
from airflow_delta_provider.core.keys import encode_key
from airflow_delta_provider.core.pairing import Names, Pairing, pair_columns, structure_findings
from airflow_delta_provider.core.plan import KeyRange
from airflow_delta_provider.core.recorded import Comparison, HmacKey
from airflow_delta_provider.core.spec import SideSpec, Spec
from airflow_delta_provider.core.stream import KeyColumn, Layout
from airflow_delta_provider.core.submanifest import Shared, shared_of
from airflow_delta_provider.engine.filtering import filters_of
from airflow_delta_provider.engine.literals import key_literals
from airflow_delta_provider.engine.manners import introduce, manners_for
from airflow_delta_provider.engine.named import NamedSide, named
from airflow_delta_provider.engine.typing import Typed, admit_values, resolve_untyped, type_columns

OpenSide = Callable[[SideSpec], Side]
"""Opens one side; the command line and Airflow bring their own."""


class Opened:
    """Two opened sides with all that is fixed about their comparison. Close it when done; it is a context manager."""

    def __init__(
        self, spec: Spec, source: Side, target: Side, pairing: Pairing, typed: Typed, hmac_key: HmacKey | None
    ) -> None:
        self.spec = spec
        self.source = source
        self.target = target
        self.pairing = pairing
        self.typed = typed
        self.names = Names(source.columns, target.columns, spec)
        self.filters = filters_of(spec, source, target, self.names.partner)
        self.comparison = Comparison(
            columns=typed.columns,
            source_key=typed.source_key,
            target_key=typed.target_key,
            detail=spec.detail,
            inline_limit=spec.inline_limit,
            hmac_key=hmac_key,
            raw_keys=any(column.rules for column in typed.target_key),
        )
        self._orders: dict[str, Order] = {}
        self.narrowing: Any = None
        """What narrow.narrowing_of decided, once it was asked."""
        self.key_range = _whole_range(spec, typed)
        self.shared = _shared(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release both sides."""
        try:
            self.source.close()
        finally:
            self.target.close()

    def side(self, name: str) -> Side:
        """Return the side called ``source`` or ``target``."""
        return self.source if name == "source" else self.target

    def key_columns(self, name: str) -> tuple[KeyColumn, ...]:
        """Return the key columns of one side."""
        return self.typed.source_key if name == "source" else self.typed.target_key

    def layout(self, name: str, key_range: KeyRange) -> Layout:
        """Return how batches of one side are laid out and guarded for a key range."""
        pairs = self.pairing.values
        return Layout(
            side=name,
            key=self.key_columns(name),
            values=tuple(pair.source if name == "source" else pair.target for pair in pairs),
            lower=key_range.lower,
            upper=key_range.upper,
            nulls=self.spec.nulls,
            duplicates=self.spec.duplicates,
            raw_keys=self.comparison.raw_keys,
        )

    def order(self, name: str) -> Order:
        """Return what order one side delivers; rules on the key mean none."""
        if name not in self._orders:
            self._orders[name] = self._order(name)
        return self._orders[name]

    def _order(self, name: str) -> Order:
        keys = self.key_columns(name)
        if any(column.rules for column in keys):
            return Order.NONE
        return self.side(name).order(tuple(column.name for column in keys), tuple(column.key_type for column in keys))

    def range_cost(self, name: str) -> RangeCost:
        """Return what one key range costs on one side."""
        if self.order(name) is Order.NONE:
            return RangeCost.SCAN
        return self.side(name).range_cost(tuple(column.name for column in self.key_columns(name)))

    def request(self, name: str, key_range: KeyRange, *, ordered: bool, values: bool = True) -> Request:
        """Return the read of one side for a key range; ``values=False`` reads the key columns only."""
        keys = self.key_columns(name)
        layout = self.layout(name, key_range)
        ruled = any(column.rules for column in keys)
        names = tuple(column.name for column in keys)
        wanted = dict.fromkeys((*names, *(layout.values if values else ())))
        return Request(
            columns=tuple(wanted),
            key=() if ruled else names,
            key_types=() if ruled else tuple(column.key_type for column in keys),
            lower=None if ruled else key_range.lower,
            upper=None if ruled else key_range.upper,
            filter=self.filters[name],
            ordered=ordered,
        )


def open_sides(
    spec: Spec, open_side: OpenSide, *, environ: Mapping[str, str] | None = None, hmac_key: HmacKey | None = None
) -> Opened:
    """Open both sides of a specification, pair and type their columns, and write the shared documents.

    Raises: every DELTA_SPEC_*, DELTA_SIDE_*, DELTA_RULE_* refusal, ConnectError, FilterError, KeyTypeError,
    KeySensitiveError, HmacKeyError, SignSizeError. Nothing was compared then, and both sides are closed again.
    """
    if spec.source is None:
        raise SpecValueError("a reconciliation needs a source.", where="source")
    if hmac_key is None:
        hmac_key = hmac_from_environment(spec, os.environ if environ is None else environ)
    if hmac_key is None and (spec.sensitive or spec.detail == "digests"):
        raise HmacKeyError("values are to be recorded as keyed digests.", where="hmac")
    opened: list[Side] = []
    with ExitStack() as undo:
        undo.callback(_close_all, opened)
        for name, side_spec in (("source", spec.source), ("target", spec.target)):
            with named(name):
                side = open_side(replace(side_spec.expanded(environ), options=side_options(spec)))
                manners = manners_for(spec, name)
                introduce(side, manners, name)
            opened.append(NamedSide(name, side, manners.rows_per_second))
        source, target = opened
        names = Names(source.columns, target.columns, spec)
        ignored = rules.ignored_names(spec.rules)
        keys = (source.primary_key, target.primary_key)
        pairing = pair_columns(names, target.columns, spec, ignored=ignored, primary_keys=keys)
        source, target = opened[:] = resolve_untyped(source, target, pairing, spec, names)
        typed = type_columns(source.columns, target.columns, pairing, spec, names)
        admit_values(source, target, pairing, typed)
        found = Opened(spec, source, target, pairing, typed, hmac_key)
        undo.pop_all()  # it closes them from here on
        return found


def _close_all(sides: list[Side]) -> None:
    for side in sides:
        side.close()


def side_options(spec: Spec) -> dict[str, Any]:
    """Return the options that a specification gives its sides: how text files are read, and columns not to be shown."""
    renamed = dict(spec.column_map)
    hidden = [name for column in spec.sensitive for name in (column, renamed.get(column, column))]
    return {"csv": spec.csv, "jsonl": spec.jsonl, "hidden": list(dict.fromkeys(hidden))}


def hmac_key_of(key_id: str, secret: str) -> HmacKey:
    """Return the key of keyed digests from its configured text: hex if it is hex, else its UTF-8 bytes."""
    if not ids.is_hmac_key_id(key_id):
        raise HmacKeyError(f"{key_id!r} is no key id of the form [a-z0-9._-]{{1,64}}.", where="hmac")
    try:
        data = bytes.fromhex(secret)
    except ValueError:
        data = secret.encode()
    if not data:
        raise HmacKeyError("the key is empty.", where="hmac")
    return HmacKey(key_id, data)


def hmac_from_environment(spec: Spec, environ: Mapping[str, str]) -> HmacKey | None:
    """Return the key that ``hmac: {env: NAME}`` names, None without it. Raises: SpecEnvError, HmacKeyError."""
    name = spec.hmac.get("env")
    if name is None:
        return None
    if name not in environ:
        raise SpecEnvError(f"environment variable {name} is not set.", where="hmac.env")
    return hmac_key_of(name.lower().replace(" ", "-"), environ[name])


def _shared(opened: Opened) -> Shared:
    spec, typed = opened.spec, opened.typed
    if spec.source is None:
        raise SpecValueError("a reconciliation needs a source.", where="source")
    key = [(pair.target, column.key_type) for pair, column in zip(opened.pairing.key, typed.target_key, strict=True)]
    pair = {"name": spec.name, "source": spec.source.label, "target": spec.target.label}
    documents.check_sign_limits(
        pair,
        {"schema": spec.schema_version, "contract": spec.contract_version},
        [name for name, _ in key],
        [kind.kind for _, kind in key],
        (opened.key_range.lower, opened.key_range.upper),
    )
    columns = [(column.name, column.schema) for column in typed.columns]
    findings = structure_findings(opened.pairing, opened.source.columns, opened.target.columns)
    return shared_of(
        documents.build_schema(spec.schema_version, key, columns, spec.inline_limit),
        documents.build_contract(_contract(opened)),
        documents.build_structure(findings),
        pair,
    )


def _contract(opened: Opened) -> dict[str, Any]:
    spec = opened.spec
    names = opened.names
    mapped = [[a, b] for a, b in ((names.find(a, "columns.map")[0], b) for a, b in spec.column_map)]
    sensitive = {names.documented(name, "sensitive") for name in spec.sensitive}
    return {
        "columns": {
            "exclude": list(opened.pairing.excluded),
            "map": sorted(mapped, key=lambda pair: str(pair[0]).encode()),
            "names": spec.names,
        },
        "csv": _csv(opened),
        "detail": spec.detail,
        "filter": {"source": spec.filter_source, "target": spec.filter_target},
        "keys": {"duplicates": spec.duplicates, "nulls": spec.nulls},
        "rules": opened.typed.rules,
        "sensitive": sorted(sensitive, key=str.encode),
        "version": spec.contract_version,
    }


def _csv(opened: Opened) -> dict[str, Any] | None:
    if "csv" not in (opened.source.kind, opened.target.kind):
        return None
    given = opened.spec.csv
    types = given.get("types") or {}
    return {
        "nulls": given.get("nulls", "unquoted_empty"),
        "trim_header": given.get("trim_header", False),
        "types": sorted(([name, kind] for name, kind in types.items()), key=lambda pair: str(pair[0]).encode()),
    }


def _whole_range(spec: Spec, typed: Typed) -> KeyRange:
    types = [column.key_type for column in typed.target_key]
    bounds = [
        None if literals is None else _bound(key_literals(literals, types, where), types, where)
        for literals, where in ((spec.key_from, "key_range.from"), (spec.key_to, "key_range.to"))
    ]
    try:
        return KeyRange(bounds[0], bounds[1])
    except RangeError as error:
        raise SpecValueError("key_range holds no key.", where="key_range") from error


def _bound(values: list[Any], types: list[Any], where: str) -> bytes:
    return encode_key(values, types[: len(values)])


def shard_bounds(spec: Spec, typed: Typed) -> list[bytes] | None:
    """Return the shard bounds that a specification lists, as key bytes, or None."""
    if spec.shard_bounds is None:
        return None
    types = [column.key_type for column in typed.target_key]
    where = "shards.bounds"
    return [_bound(key_literals(bound, types, where), types, where) for bound in spec.shard_bounds]
