"""The form of single records: members, key, id, order, range and the form of each value (docs/format.md, S4)."""

from __future__ import annotations

from collections import Counter
from typing import Any

from airflow_delta_provider.core import ids, jsonc
from airflow_delta_provider.core.documents import Document, range_bytes, rules_of
from airflow_delta_provider.core.errors import (
    DeltaError,
    DetailError,
    IdentityDerivationError,
    KeyEncodingError,
    KeyMismatchError,
    RangeError,
    RecordContractError,
    UnsortedStreamError,
)
from airflow_delta_provider.core.findings import Findings
from airflow_delta_provider.core.keys import decode_key
from airflow_delta_provider.core.types import from_schema
from airflow_delta_provider.core.valueform import ValueForm, is_row_digest, value_forms

MEMBERS = ("category", "id", "key", "sort_key", "source_value", "target_value")
RAW_KEYS = ("source_key", "target_key")


class RecordChecker:
    """Checks the records of one body, in order; what it finds goes to ``findings`` with the record's number.

    Shape: ``schema`` and ``contract`` are None where they could not be read; what needs them is then left out.
    ``columns`` counts the records that name each column; ``first`` is the place of the first record that has a key, with
    its key bytes, ``last`` the key bytes of the last.
    """

    def __init__(
        self, manifest: Document, schema: Document | None, contract: Document | None, findings: Findings
    ) -> None:
        self.start(findings)
        self._types = [from_schema(kind) for kind in manifest["key"]["types"]]
        self._lower, self._upper = range_bytes(manifest["key_range"])
        self._version = manifest["schema"]["version"]
        self._ids = {category: ids.record_ids(self._version, category) for category in ids.CATEGORIES}
        self._sweep = "sweep" in manifest
        self._forms = value_forms(schema, contract) if schema is not None and contract is not None else None
        self._places = {name: place for place, name in enumerate(self._forms or ())}
        self._raw_keys: bool | None = None
        self._null_keys = contract is None or contract["keys"]["nulls"] == "match"
        self._whole_digest = contract is not None and contract["detail"] in ("values", "digests")
        if contract is not None:
            names = set(manifest["key"]["columns"])
            self._raw_keys = any(column in names for column, _, _ in rules_of(contract))

    def start(self, findings: Findings) -> None:
        """Begin anew: what comes next is held against no record before it."""
        self.columns: Counter[str] = Counter()
        self.first: tuple[str, bytes] | None = None
        self.last: bytes | None = None
        self._findings = findings

    def check(self, line: bytes, number: int) -> None:
        """Check one line without LF."""
        place = f"record {number}"
        try:
            record = jsonc.loads(line)
            category = self._check_members(record)
        except DeltaError as error:
            self._findings.add(error, place)
            return
        place = f"{place}, key {record['sort_key'][:64]}"
        if self.first is None:
            self.first = place, bytes.fromhex(record["sort_key"])
        for problem in self._problems(record, category):
            self._findings.add(problem, place)

    def _check_members(self, record: Any) -> str:
        """Return the category of a record that has exactly the members of its category."""
        if not isinstance(record, dict):
            raise RecordContractError("A line is no object.")
        category = record.get("category")
        if category not in ids.CATEGORIES:
            raise RecordContractError("A record has no category of this format.")
        wanted = {*MEMBERS, *(("columns",) if category == "value_diverged" else ())}
        if self._raw_keys or (self._raw_keys is None and RAW_KEYS[0] in record):
            wanted.update(RAW_KEYS)
        if set(record) != wanted:
            odd = sorted(set(record) ^ wanted)
            raise RecordContractError(f"A record has other members than its category demands: {', '.join(odd)[:120]}.")
        sort_key = record["sort_key"]
        if not isinstance(sort_key, str) or not ids.is_digest(record["id"]) or not isinstance(record["key"], list):
            raise RecordContractError("A record has an id, key or sort_key of another form.")
        if len(sort_key) % 2 or sort_key.strip("0123456789abcdef"):
            raise RecordContractError("A sort_key is no lower-case hex.")
        return str(category)

    def _problems(self, record: dict[str, Any], category: str) -> list[DeltaError]:
        found = self._key_problems(record, category)
        if RAW_KEYS[0] in record:
            found += self._raw_key_problems(record, category)
        if category == "value_diverged":
            found += self._swept_problems(record) if self._sweep else self._diverged_problems(record)
        else:
            found += self._one_sided_problems(record, category)
        return found

    def _key_problems(self, record: dict[str, Any], category: str) -> list[DeltaError]:
        sort_key, found = bytes.fromhex(record["sort_key"]), list[DeltaError]()
        found += out_of_order(sort_key, self.last)
        self.last = sort_key
        above = self._lower is None or self._lower <= sort_key
        if not (above and (self._upper is None or sort_key < self._upper)):
            found.append(RangeError("The key lies outside the key range of the manifest."))
        try:
            if decode_key(sort_key, self._types) != record["key"]:
                found.append(KeyMismatchError("The key is not the one that its sort_key holds."))
        except KeyEncodingError as error:
            found.append(error)
        if not self._null_keys and None in record["key"]:
            found.append(RecordContractError("The key has a NULL, which the contract does not match."))
        if self._ids[category](sort_key) != record["id"]:
            found.append(IdentityDerivationError("The id does not follow from schema version, category and key."))
        return found

    def _raw_key_problems(self, record: dict[str, Any], category: str) -> list[DeltaError]:
        absent = {"added": RAW_KEYS[0], "dropped": RAW_KEYS[1]}.get(category)
        for member in RAW_KEYS:
            value, unknown = record[member], self._sweep and member == RAW_KEYS[0]
            whole = isinstance(value, list) and len(value) == len(self._types)
            if not (value is None if member == absent else whole or (unknown and value is None)):
                return [RecordContractError(f"{member} is not the key of that side before any rule.")]
        return []

    def _one_sided_problems(self, record: dict[str, Any], category: str) -> list[DeltaError]:
        absent, present = RAW_VALUES if category == "added" else RAW_VALUES[::-1]
        if record[absent] is not None:
            return [RecordContractError(f"{absent} is not null, though only the other side has the key.")]
        if self._sweep and category == "dropped":
            good = is_row_digest(record[present])
            return [] if good else [RecordContractError(f"{present} is no row digest.")]
        return self._row_problems(record[present], present)

    def _swept_problems(self, record: dict[str, Any]) -> list[DeltaError]:
        if record["columns"] is not None or not is_row_digest(record["source_value"]):
            return [RecordContractError("A changed row of a sweep has null columns and a row digest as source_value.")]
        found = self._row_problems(record["target_value"], "target_value")
        if not found and self._whole_digest:
            row = jsonc.dumps(record["target_value"])
            digest = ids.row_digest(self._version, bytes.fromhex(record["sort_key"]), row)
            if digest == record["source_value"]["row_digest"]:
                found.append(RecordContractError("The row digests before and after are equal."))
        return found

    def _row_problems(self, row: Any, member: str) -> list[DeltaError]:
        if not isinstance(row, list):
            return [RecordContractError(f"{member} is no row.")]
        if self._forms is None:
            return []
        if len(row) != len(self._forms):
            return [RecordContractError(f"{member} has {len(row)} values for {len(self._forms)} columns.")]
        checked = (form.problem(value) for form, value in zip(self._forms.values(), row, strict=True))
        return [problem for problem in checked if problem is not None]

    def _diverged_problems(self, record: dict[str, Any]) -> list[DeltaError]:
        names, source, target = record["columns"], record["source_value"], record["target_value"]
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            return [RecordContractError("columns names no diverged column.")]
        if not (isinstance(source, list) and isinstance(target, list) and len(source) == len(target) == len(names)):
            return [RecordContractError("The values are not one for each diverged column.")]
        self.columns.update(names)
        if self._forms is None:
            return []
        places = [self._places.get(name, -1) for name in names]
        if min(places) < 0 or places != sorted(set(places)):
            return [RecordContractError("columns are not compared columns in schema order.")]
        found = list[DeltaError]()
        for name, one, other in zip(names, source, target, strict=True):
            found += _pair_problems(self._forms[name], one, other)
        return found


RAW_VALUES = ("source_value", "target_value")


def out_of_order(sort_key: bytes, last: bytes | None) -> list[DeltaError]:
    """Return the problem of a key that does not come after the one before it."""
    if last is None or sort_key > last:
        return []
    return [UnsortedStreamError(f"Key {sort_key.hex()} comes after {last.hex()}.")]


def _pair_problems(form: ValueForm, one: Any, other: Any) -> list[DeltaError]:
    found = [problem for problem in (form.problem(one), form.problem(other)) if problem is not None]
    if not found and one == other and not form.may_be_alike:
        found.append(DetailError(f"Column {form.name!r} diverged, but both values are recorded alike."))
    return found
