"""What a patch stands on: a verified manifest, its documents, and a specification that speaks of the same two sides."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from airflow_delta_provider.core import documents, log
from airflow_delta_provider.core.body import read_lines
from airflow_delta_provider.core.documents import Document
from airflow_delta_provider.core.errors import HmacKeyError, PatchManifestError
from airflow_delta_provider.core.patch import PatchRule
from airflow_delta_provider.core.patch_rows import PatchColumn, RowForms
from airflow_delta_provider.core.patch_seal import seal_key_of
from airflow_delta_provider.core.recorded import HmacKey
from airflow_delta_provider.core.spec import SideSpec, Spec
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.core.store.publish import Sign
from airflow_delta_provider.core.store.published import open_body
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.core.types import NUMBERS, LogicalType, from_schema
from airflow_delta_provider.engine.opened import Opened

BATCH_RECORDS = 1024
CLEAR_DETAILS = ("values", "digests")
"""Details that record of every value what is needed to know it again."""

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class PairColumn:
    """One pair of columns under its documented name, with the names on both sides, the pair's type and its rules."""

    name: str
    source: str
    target: str
    schema: LogicalType
    rules: tuple[Mapping[str, Any], ...]
    keyed: bool

    def own(self, side: str) -> str:
        """Return the column's name on one side."""
        return self.source if side == "source" else self.target


@dataclass(frozen=True, slots=True)
class Context:
    """Everything that is fixed about one patch. ``sign``: makes the envelope of the manifest that proves it."""

    spec: Spec
    store: Store
    manifest_id: str
    manifest: Document
    pair_id: str
    rule: PatchRule
    key: tuple[PairColumn, ...]
    columns: tuple[PairColumn, ...]
    inline_limit: int
    hmac_key: HmacKey | None
    seal_key: bytes | None
    filtered: bool
    sign: Sign | None = None

    @property
    def side(self) -> str:
        """The side that is written to."""
        return self.rule.side

    @property
    def key_types(self) -> list[LogicalType]:
        """The canonical types of the key."""
        return [column.schema for column in self.key]

    @property
    def ruled_key(self) -> bool:
        """True where a rule stands on a key column, so that no key can be looked up by its stored value."""
        return any(column.rules for column in self.key)

    def together(self, batches: Iterator[list[Part]]) -> Iterator[list[Part]]:
        """Yield batches as they are; all in one where a rule on the key makes every read one of the whole table."""
        if not self.ruled_key:
            yield from batches
            return
        whole = [part for batch in batches for part in batch]
        if whole:
            yield whole

    def side_spec(self) -> SideSpec:
        """Return the written side of the specification, its environment filled in."""
        side = self.spec.target if self.side == "target" else self.spec.source
        if side is None:
            raise PatchManifestError("the specification has no source.", where="source")
        return side.expanded(os.environ)

    def forms(self, side: str, types: Mapping[str, LogicalType]) -> RowForms:
        """Return the forms of rows of a side whose columns have these stored types."""

        def column(pair: PairColumn) -> PatchColumn:
            own = pair.own(side)
            if own not in types:
                raise PatchManifestError(f"{side}: column {own!r} is gone since the comparison.", where=side)
            return PatchColumn(pair.name, own, pair.schema, types[own], pair.rules, pair.keyed)

        key, columns = [column(pair) for pair in self.key], [column(pair) for pair in self.columns]
        return RowForms(side, key, columns, self.inline_limit, self.hmac_key)

    def records(self) -> Iterator[list[dict[str, Any]]]:
        """Yield the records of the manifest in batches, in key order. Raises: as ``lines``."""
        for lines in self.lines():
            yield [orjson.loads(line) for line in lines]

    def lines(self) -> Iterator[list[bytes]]:
        """Yield the lines of the manifest's body in batches; its form was verified before, so here it is only hashed.

        Raises: PatchManifestError (DELTA_PATCH_MANIFEST) at the end where it is no longer what was verified.
        """
        digest, hasher = self.manifest["body"]["sha256"], hashlib.sha256()
        entries = log.read_log(self.store, self.pair_id)
        with closing(open_body(self.store, entries, digest)) as body:
            yield from read_lines(body, hasher, BATCH_RECORDS)
        if hasher.hexdigest() != digest:
            raise PatchManifestError("the body changed after it was verified.", where=self.manifest_id)


def context_of(
    opened: Opened,
    store: Store,
    manifest_id: str,
    manifest: Document,
    rule: PatchRule,
    seal_key: bytes | None,
) -> Context:
    """Return the context of a patch from the opened sides, which must be the ones that the manifest compared.

    Raises: PatchManifestError (DELTA_PATCH_MANIFEST), PatchRuleError (DELTA_PATCH_RULE), HmacKeyError.
    """
    schema = documents.parse_schema(blobs.get_blob(store, manifest["schema"]["sha256"]))
    contract = documents.parse_contract(blobs.get_blob(store, manifest["contract"]["sha256"]))
    _check_sides(opened, manifest, schema)
    detail = contract["detail"]
    if detail not in CLEAR_DETAILS:
        raise PatchManifestError(f"detail {detail} records no values, so no change could be checked.", where="detail")
    rules = dict(contract["rules"])
    sensitive = set(contract["sensitive"])

    def pairs(forms: list[list[Any]], named: Any) -> tuple[PairColumn, ...]:
        return tuple(
            PairColumn(name, pair.source, pair.target, from_schema(kind), tuple(rules.get(name, ())),
                       name in sensitive or detail == "digests")
            for (name, kind), pair in zip(forms, named, strict=True)
        )  # fmt: skip

    columns = pairs(schema["columns"], opened.pairing.values)
    rule.check_column({column.name: column.schema for column in columns})
    hmac_key = opened.comparison.hmac_key
    if sensitive and seal_key is None:
        if hmac_key is None:
            raise HmacKeyError("checkpoints of sensitive columns are encrypted.", where="hmac")
        seal_key = seal_key_of(hmac_key.secret)
    partial = manifest["key_range"] != {"lower": None, "upper": None}
    return Context(
        opened.spec,
        store,
        manifest_id,
        manifest,
        documents.pair_id(**manifest["pair"]),
        rule,
        pairs(schema["key"], opened.pairing.key),
        columns,
        schema["inline_limit"],
        hmac_key,
        seal_key if sensitive else None,
        partial or any(contract["filter"].values()),
    )


def _check_sides(opened: Opened, manifest: Document, schema: Document) -> None:
    """Refuse a specification of other sides, columns or rules than the manifest compared.

    Types may have drifted inside the numbers: a dynamically typed engine tells them from the values that are stored.
    """
    shared = opened.shared
    context = shared.context
    if dict(context.pair) != manifest["pair"]:
        raise PatchManifestError(f"the manifest is of {manifest['pair']}, not of {dict(context.pair)}.", where="pair")
    if context.contract[0] != manifest["contract"]["sha256"]:
        raise PatchManifestError("the manifest was made under another contract.", where="contract")
    mine = [*shared.schema_form["key"], *shared.schema_form["columns"]]
    theirs = [*schema["key"], *schema["columns"]]
    if [name for name, _ in mine] != [name for name, _ in theirs] or shared.schema_form["key"] != schema["key"]:
        raise PatchManifestError("the manifest compared other columns.", where="schema")
    for (name, kind), (_, other) in zip(mine, theirs, strict=True):
        if kind != other and not (kind in NUMBERS and other in NUMBERS):
            raise PatchManifestError(f"column {name!r} was compared as {other} and is {kind} now.", where="schema")
