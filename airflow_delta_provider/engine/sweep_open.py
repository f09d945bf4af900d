"""Open a sweep: one side, the newest generation, and the documents of the series that it continues or starts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from airflow_delta_provider.adapters.side import SAMPLE_ROWS, Column, Order, RangeCost, Request, Side
from airflow_delta_provider.core import documents, rules
from airflow_delta_provider.core.documents.manifest import SWEEP_SOURCE
from airflow_delta_provider.core.errors import (
    ContractError,
    GenerationChainError,
    GenerationContextError,
    HmacKeyError,
    SpecFieldError,
    SpecValueError,
    shown,
)
from airflow_delta_provider.core.generations import check_range_covers
from airflow_delta_provider.core.pairing import Names, Pairing, pair_columns
from airflow_delta_provider.core.plan import KeyRange
from airflow_delta_provider.core.predecessor import Predecessor, load_generation, newest_generation
from airflow_delta_provider.core.recorded import HmacKey
from airflow_delta_provider.core.spec import SideSpec, Spec
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.core.types import LogicalType, from_schema
from airflow_delta_provider.engine.named import NamedSide, named
from airflow_delta_provider.engine.opened import Opened, OpenSide, hmac_from_environment, side_options
from airflow_delta_provider.engine.typing import Typed, admit_values, mapped_type, resolve_untyped, type_columns

WIDER = {("int", "decimal"), ("float32", "decimal"), ("float64", "decimal"), ("float32", "float64")}
"""Types of a data set that the type of a series holds exactly."""
NEW_SERIES = "Another schema_version starts a new series."


class Retained:
    """What a sweep compares with, as a side: columns only, for its rows are not kept."""

    kind = "generation"
    where = "retained row digests"
    primary_key: tuple[str, ...] = ()

    def __init__(self, columns: tuple[Column, ...]) -> None:
        self.columns = columns

    def resolve(self, types: Mapping[str, LogicalType]) -> Side:
        """Return itself: every type is known."""
        return self

    def order(self, key: tuple[str, ...], key_types: tuple[LogicalType, ...]) -> Order:
        """As ``Side.order``: packs are sorted."""
        return Order.PROMISED

    def range_cost(self, key: tuple[str, ...]) -> RangeCost:
        """As ``Side.range_cost``: packs have an index."""
        return RangeCost.INDEX

    def read(self, request: Request) -> Iterator[pa.RecordBatch]:
        """Yield nothing."""
        return iter(())

    def sample(self, key: tuple[str, ...], rows: int = SAMPLE_ROWS) -> pa.Table:
        """Return no rows."""
        return pa.table({name: pa.array([], pa.null()) for name in key})

    def estimate_rows(self) -> int | None:
        """Return None."""
        return None

    def facts(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def close(self) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where a sweep starts from.

    Shape: ``follows`` is the newest generation of the pair, whose slot the sweep claims; ``predecessor`` is the same one,
    or None where a new series starts.
    """

    follows: str | None
    predecessor: str | None


class OpenedSweep(Opened):
    """An opened side with all that is fixed about its sweep, the predecessor too where it continues a series."""

    predecessor: Predecessor | None = None
    follows: str | None = None

    @property
    def number(self) -> int:
        """The number of the generation that the sweep makes."""
        return 0 if self.predecessor is None else int(self.predecessor.document["generation"]) + 1

    @property
    def hmac_key_id(self) -> str | None:
        """The id of the key of keyed digests, None where nothing is keyed."""
        return None if self.comparison.hmac_key is None else self.comparison.hmac_key.key_id

    @property
    def start(self) -> Start:
        """What another process needs to open the same sweep."""
        return Start(self.follows, None if self.predecessor is None else self.predecessor.header_id)

    def request(self, name: str, key_range: KeyRange, *, ordered: bool, values: bool = True) -> Request:
        """As ``Opened.request``: a value that is refused fails its row, unless the key or the filter is in need of it."""
        whole = super().request(name, key_range, ordered=ordered, values=values)
        needed = {*whole.key, *(column.name for column in self.key_columns(name))}
        needed |= set() if whole.filter is None else set(whole.filter.columns)
        return replace(whole, refusable=tuple(column for column in whole.columns if column not in needed))

    @property
    def filtered(self) -> bool:
        """True where the specification has a filter."""
        return self.filters["target"] is not None


def open_sweep(
    spec: Spec,
    store: Store,
    open_side: OpenSide,
    *,
    environ: Mapping[str, str] | None = None,
    hmac_key: HmacKey | None = None,
    start: Start | None = None,
    predecessor: str | None = None,
) -> OpenedSweep:
    """Open the target of a sweep and the newest generation of its pair.

    The schema of a series is that of its first sweep: a column that came since is a finding and not swept. Another
    contract, key, HMAC key or ``schema_version`` starts a series of its own.
    ``start`` is that of a sweep planned before. ``predecessor``: refuse unless the sweep continues from this generation.
    Raises: GenerationContextError (DELTA_GENERATION_CONTEXT) where a column of the series is gone or has another type, or
    ``predecessor`` has another contract, schema, key, pair or HMAC key; GenerationChainError where it is not the newest;
    GenerationLostError where the key range is narrower than the predecessor's; ContractError for a rule that needs two
    values; every refusal of the side and the specification.
    """
    spec = sweep_spec(spec)
    key = _hmac_key(spec, hmac_key, os.environ if environ is None else environ)
    pair = {"name": spec.name, "source": SWEEP_SOURCE, "target": spec.target.label}
    pair_id = documents.pair_id(**pair)
    follows = newest_generation(store, pair_id) if start is None else start.follows
    if predecessor is not None:
        load_generation(store, pair_id, predecessor)
        if predecessor != follows:
            raise GenerationChainError(f"The newest generation is {follows}, not {predecessor}.", where=predecessor)
    with named("target"):
        side: Side = NamedSide("target", open_side(replace(spec.target.expanded(environ), options=side_options(spec))))
    with ExitStack() as undo:
        undo.callback(side.close)
        before = None if follows is None else load_generation(store, pair_id, follows)
        opened = None
        if before is not None and (start is None or start.predecessor is not None):
            opened = _continued(spec, store, side, before, key)
        if opened is None:
            if predecessor is not None or (start is not None and start.predecessor is not None):
                raise GenerationContextError(
                    f"Generation {follows} has another contract, schema, key or HMAC key.", where="predecessor"
                )
            opened = _started(spec, side, key)
        documents.check_contract_fits(opened.shared.contract_form, opened.shared.schema_form, sweep=True)
        opened.follows = follows
        undo.pop_all()  # what is returned closes it
        return opened


def sweep_spec(spec: Spec) -> Spec:
    """Return the specification of a sweep as the engine takes it: the filter is the target's, the source has a label only.

    Raises: SpecFieldError, SpecValueError for what a sweep cannot take, ContractError for rules that need two values.
    """
    if spec.source is not None and spec.source != SideSpec(label=SWEEP_SOURCE):
        raise SpecFieldError("a sweep compares with the predecessor generation and takes no source.", where="source")
    if spec.column_map:
        raise SpecFieldError("columns.map pairs two sides; a sweep has one.", where="columns.map")
    if not spec.filter_shared and spec.filter_source is not None:
        raise SpecFieldError("filter.source is of a side that a sweep does not have.", where="filter.source")
    if spec.recheck_attempts:
        raise SpecFieldError("a sweep looks once; recheck is for two sides.", where="recheck")
    if spec.strategy not in ("auto", "stream"):
        raise SpecValueError(f"a sweep reads every row; strategy {spec.strategy} does not.", where="strategy")
    for column, written in spec.rules.items():
        for rule in written if isinstance(written, list) else [written]:
            _check_rule(column, rule)
    return replace(
        spec,
        source=SideSpec(label=SWEEP_SOURCE),
        filter_source=None,
        filter_target=spec.filter_source if spec.filter_shared else spec.filter_target,
        filter_shared=False,
    )


def _check_rule(column: str, rule: Any) -> None:
    for name, parameters in rule.items() if isinstance(rule, Mapping) else ():
        if name in rules.PAIR_RULES:
            raise ContractError(f"rule {name} of column {shown(column)!r} needs two values; a sweep has one.")
        if isinstance(parameters, Mapping) and parameters.get("side") == "source":
            raise ContractError(f"rule {name} of column {shown(column)!r} is for a source; a sweep has none.")


def _hmac_key(spec: Spec, given: HmacKey | None, environ: Mapping[str, str]) -> HmacKey | None:
    """Return the key where something is keyed: sensitive columns, and row digests under any detail but ``values``."""
    if not spec.sensitive and spec.detail == "values":
        return None
    key = given or hmac_from_environment(spec, environ)
    if key is None:
        raise HmacKeyError("values are to be digested with a key.", where="hmac")
    return key


def _continued(spec: Spec, store: Store, side: Side, before: Predecessor, key: HmacKey | None) -> OpenedSweep | None:
    """Open the next sweep of a series, or return None where specification and series differ.

    Raises: GenerationContextError where the data set has no longer the columns of the series; GenerationLostError.
    """
    series = documents.parse_schema(blobs.get_blob(store, before.document["schema"]["sha256"]))
    if series["version"] != spec.schema_version or series["inline_limit"] != spec.inline_limit:
        return None
    if before.document["hmac_key"] != (None if key is None else key.key_id):
        return None
    forms = dict([*series["key"], *series["columns"]])
    gone = [name for name in forms if name not in {column.name for column in side.columns}]
    if gone:
        raise GenerationContextError(f"column {shown(gone[0])!r} of the series is gone. {NEW_SERIES}", where=gone[0])
    side, names, pairing = _paired(spec, _resolved(side, spec, forms), frozenset(forms))
    place = {name: number for number, (name, _) in enumerate(series["columns"])}
    if [pair.target for pair in pairing.key] != [name for name, _ in series["key"]] or place.keys() != {
        pair.target for pair in pairing.values
    }:
        return None
    pairing = replace(pairing, values=tuple(sorted(pairing.values, key=lambda pair: place[pair.target])))
    typed, changed = _in_series(_typed(side, pairing, spec, names), forms)
    retained = tuple(
        Column(column.name, changed[column.name], "") if column.name in changed else column
        for column in side.columns
        if column.name in forms
    )
    opened = OpenedSweep(spec, Retained(retained), side, pairing, typed, key)
    if opened.shared.context.contract[0] != before.document["contract"]["sha256"]:
        return None
    _refuse_other_types(opened, forms)
    if opened.shared.context.schema[0] != before.document["schema"]["sha256"]:
        return None
    check_range_covers((opened.key_range.lower, opened.key_range.upper), before.document)
    opened.predecessor = before
    return opened


def _started(spec: Spec, side: Side, key: HmacKey | None) -> OpenedSweep:
    """Open the first sweep of a series, whose schema is that of the data set now."""
    side, names, pairing = _paired(spec, side, None)
    return OpenedSweep(spec, Retained(side.columns), side, pairing, _typed(side, pairing, spec, names), key)


def _resolved(side: Side, spec: Spec, forms: Mapping[str, Any]) -> Side:
    """Give columns whose type nobody declared the type that they have in the series."""
    wanted = {
        column.name: from_schema(forms[column.name])
        for column in side.columns
        if column.untyped and column.name in forms and not {column.name, "*"} & spec.rules.keys()
    }
    return side.resolve(wanted) if wanted else side


def _paired(spec: Spec, side: Side, among: frozenset[str] | None) -> tuple[Side, Names, Pairing]:
    """Pair the columns of a side with themselves, or with those among them that are in a series."""
    mine = [column for column in side.columns if among is None or column.name in among]
    names = Names(mine, side.columns, spec)
    keys = (side.primary_key, side.primary_key)
    ignored = rules.ignored_names(spec.rules)
    pairing = pair_columns(names, side.columns, spec, ignored=ignored, primary_keys=keys)
    return resolve_untyped(side, side, pairing, spec, names)[1], names, pairing


def _typed(side: Side, pairing: Pairing, spec: Spec, names: Names) -> Typed:
    """Type the columns; what is digested and recorded is a value after all its rules, so the schema has that type."""
    taken = {pair.target for pair in (*pairing.key, *pairing.values)}
    for column in side.columns:
        if column.name in taken:
            mapped_type(column, "target")  # refused under the only side that a sweep has
    typed = type_columns(side.columns, side.columns, pairing, spec, names)
    admit_values(side, side, pairing, typed)
    columns = tuple(
        replace(column, schema=rules.types_after(column.rules, column.target, "target")) for column in typed.columns
    )
    return replace(typed, columns=columns)


def _in_series(typed: Typed, forms: Mapping[str, Any]) -> tuple[Typed, dict[str, LogicalType]]:
    """Give columns the types of the series where those hold their values; return also which types have changed."""
    changed = {}

    def of(name: str, now: LogicalType) -> LogicalType:
        then = from_schema(forms[name])
        if then.schema == now.schema:
            return now
        changed[name] = then
        return then if (now.kind, then.kind) in WIDER else now

    columns = tuple(replace(column, schema=of(column.name, column.schema)) for column in typed.columns)
    keys = tuple(replace(column, key_type=of(column.name, column.key_type)) for column in typed.target_key)
    return replace(typed, columns=columns, source_key=keys, target_key=keys), changed


def _refuse_other_types(opened: OpenedSweep, forms: Mapping[str, Any]) -> None:
    now = dict([*opened.shared.schema_form["key"], *opened.shared.schema_form["columns"]])
    for name, form in forms.items():
        if now[name] != form:
            sentence = f"column {shown(name)!r} is {now[name]} in the data set and {form} in the series."
            raise GenerationContextError(f"{sentence} {NEW_SERIES}", where=name)
