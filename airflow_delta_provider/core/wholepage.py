"""Records judged a page at a time: what is certainly in order is accepted as a whole (docs/format.md, S4).

Nothing is told here of what is wrong: a page that is not certainly in order is left to ``recordform``, record by record.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from operator import eq, lt
from typing import Any

import orjson
import pyarrow as pa

from airflow_delta_provider.core import ids, jsonc
from airflow_delta_provider.core.arrays import binary_list
from airflow_delta_provider.core.collector import paused
from airflow_delta_provider.core.documents import Document, range_bytes, rules_of
from airflow_delta_provider.core.errors import DeltaError
from airflow_delta_provider.core.keytexts import key_texts
from airflow_delta_provider.core.keyvec import encode_keys
from airflow_delta_provider.core.types import from_schema
from airflow_delta_provider.core.valueform import CLEAR, ValueForm, value_forms
from airflow_delta_provider.core.wholecolumn import surely_good

LINE_BYTES = 2**20
"""Longer lines are looked at one by one."""
_TEXT = pa.large_string()
_ENCODED = {"int": pa.int64(), "text": _TEXT}
"""Kinds of keys that are encoded as whole columns, and what carries them."""
_PLACES = {category: place for place, category in enumerate(ids.CATEGORIES)}
_SIDES = {"added": ("source_value", "target_value"), "dropped": ("target_value", "source_value")}
"""For a one-sided record the member that is null, and the one that holds the row."""


@dataclass(slots=True)
class WholePage:
    """A page that is in order. Shape: ``categories`` as in ``PageScan``; ``columns`` counts records that name a column."""

    categories: bytes
    columns: Counter[str]
    first: bytes
    last: bytes


class WholePages:
    """Accepts pages of one body that are certainly in order. Shape: as ``RecordChecker``; the documents are all there."""

    def __init__(self, manifest: Document, schema: Document, contract: Document) -> None:
        types = [from_schema(kind) for kind in manifest["key"]["types"]]
        self._key_text = key_texts(types)
        self._key_forms = [ValueForm("", CLEAR, (kind,), sys.maxsize, False) for kind in types]
        self._lower, self._upper = range_bytes(manifest["key_range"])
        self._ids = {name: ids.record_ids(manifest["schema"]["version"], name) for name in ids.CATEGORIES}
        self._forms = value_forms(schema, contract)
        self._places = {name: place for place, name in enumerate(self._forms)}
        self._nulls = contract["keys"]["nulls"] == "match"
        self._named: dict[tuple[str, ...], list[ValueForm] | None] = {}

    def check(self, lines: Sequence[bytes]) -> WholePage | None:
        """Return what the page holds, or None where it must be looked at record by record."""
        try:
            with paused():
                return self._page(lines)
        except (orjson.JSONDecodeError, DeltaError, KeyError, TypeError, ValueError):
            return None  # whatever it is, it is told by record

    def _page(self, lines: Sequence[bytes]) -> WholePage | None:
        records = [orjson.loads(line) for line in lines]
        # Each line is one value, so equal bytes of all of them mean equal bytes of each.
        whole = b"[%b]" % b",".join(lines)
        if not records or jsonc.dumps_checked(records) != whole or max(map(len, lines)) > LINE_BYTES:
            return None
        return self._check(records)

    def _check(self, records: list[dict[str, Any]]) -> WholePage | None:
        categories = [record["category"] for record in records]
        keys = self._keys(records, categories)
        groups: dict[Any, list[dict[str, Any]]] = {}
        for record, category in zip(records, categories, strict=True):
            diverged = category == "value_diverged"
            if len(record) != (7 if diverged else 6) or (diverged and type(record["columns"]) is not list):
                return None
            groups.setdefault(tuple(record["columns"]) if diverged else category, []).append(record)
        columns: Counter[str] = Counter()
        for what, part in groups.items():
            good = self._rows(part, what) if isinstance(what, str) else self._diverged(part, what)
            if not good:
                return None
            columns.update(dict.fromkeys(() if isinstance(what, str) else what, len(part)))
        if keys is None:
            return None
        return WholePage(bytes(_PLACES[category] for category in categories), columns, keys[0], keys[-1])

    def _keys(self, records: list[dict[str, Any]], categories: list[str]) -> list[bytes] | None:
        """Return the key bytes of records whose key, sort_key, id and order are right."""
        texts = [record["sort_key"] for record in records]
        keys = [bytes.fromhex(text) for text in texts]
        if [key.hex() for key in keys] != texts or not all(map(lt, keys, keys[1:])):
            return None
        if (self._lower is not None and keys[0] < self._lower) or (self._upper is not None and keys[-1] >= self._upper):
            return None
        of = self._ids
        if [of[category](key) for category, key in zip(categories, keys, strict=True)] != [r["id"] for r in records]:
            return None
        stated = [record["key"] for record in records]
        # Each text is one JSON array, so equal bytes of all of them mean equal bytes of each.
        if not self._encode(stated, keys) and jsonc.dumps_checked(stated) != b"[%b]" % b",".join(
            map(self._key_text, keys)
        ):
            return None
        return None if not self._nulls and any(None in key for key in stated) else keys

    def _encode(self, stated: list[Any], keys: list[bytes]) -> bool:
        """Tell whether canonical integers and texts certainly have these key bytes."""
        columns = _columns(stated, len(self._key_forms))
        if columns is None or any(form.types[0].kind not in _ENCODED for form in self._key_forms):
            return False
        if not all(set(map(type, column)) == {str} for column in columns):
            return False
        if not all(map(surely_good, self._key_forms, columns)):
            return False
        types = [form.types[0] for form in self._key_forms]
        try:
            arrays = [
                pa.array(column, _TEXT).cast(_ENCODED[kind.kind]) for column, kind in zip(columns, types, strict=True)
            ]
        except pa.ArrowInvalid:
            return False
        return bool(encode_keys(arrays, types, types).equals(binary_list(keys)))

    def _rows(self, records: list[dict[str, Any]], category: str) -> bool:
        absent, present = _SIDES[category]
        rows = [record[present] for record in records]
        if any(record[absent] is not None for record in records):
            return False
        columns = _columns(rows, len(self._forms))
        return columns is not None and all(map(surely_good, self._forms.values(), columns))

    def _diverged(self, records: list[dict[str, Any]], names: tuple[str, ...]) -> bool:
        if names not in self._named:
            self._named[names] = self._forms_of(names)
        forms = self._named[names]
        sources = _columns([record["source_value"] for record in records], len(names))
        targets = _columns([record["target_value"] for record in records], len(names))
        if forms is None or sources is None or targets is None:
            return False
        for form, source, target in zip(forms, sources, targets, strict=True):
            if not (surely_good(form, source) and surely_good(form, target)):
                return False
            if not form.may_be_alike and any(map(eq, source, target)):
                return False
        return True

    def _forms_of(self, names: tuple[str, ...]) -> list[ValueForm] | None:
        """Return the forms of columns that a record may name in this order, None where it may not."""
        places = [self._places.get(name, -1) for name in names]
        if not names or min(places) < 0 or places != sorted(set(places)):
            return None
        return [self._forms[name] for name in names]


def _columns(rows: list[Any], count: int) -> list[tuple[Any, ...]] | None:
    """Return rows of ``count`` values as columns, None where some row is none."""
    if set(map(type, rows)) != {list} or set(map(len, rows)) != {count}:
        return None
    return list(zip(*rows, strict=True))


def whole_pages(manifest: Document, schema: Document | None, contract: Document | None) -> WholePages | None:
    """Return what accepts whole pages of a body; None where its records have members of their own or a document lacks."""
    if schema is None or contract is None or "sweep" in manifest or not manifest["key"]["columns"]:
        return None
    keyed = set(manifest["key"]["columns"])
    if any(column in keyed for column, _, _ in rules_of(contract)):
        return None
    return WholePages(manifest, schema, contract)
