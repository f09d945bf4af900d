"""The form in which the values of each column must be recorded, by detail, sensitive and type (docs/format.md, S2, S4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.documents import Document, rules_of
from airflow_delta_provider.core.errors import DeltaError, DetailError, RecordContractError
from airflow_delta_provider.core.ids import is_digest, is_hmac_key_id
from airflow_delta_provider.core.types import LogicalType, from_schema
from airflow_delta_provider.core.values import canonical_ok

CLEAR, KEYED, OMITTED = "values", "digests", "keys"
OMITTED_VALUE = {"omitted": True}


@dataclass(frozen=True, slots=True)
class ValueForm:
    """How one column's values are recorded.

    Shape: ``form`` is CLEAR, KEYED or OMITTED. ``unparsed``: a text that did not parse may stand there, alike on both
    sides. ``types``: the logical types that a value in clear may have.
    """

    name: str
    form: str
    types: tuple[LogicalType, ...]
    inline_limit: int
    unparsed: bool

    @property
    def may_be_alike(self) -> bool:
        """True where two recorded values may be equal though the values diverged."""
        return self.form == OMITTED or self.unparsed

    def problem(self, value: Any) -> DeltaError | None:
        """Return what is wrong with a recorded value, or None."""
        if self.form == OMITTED:
            return None if is_omitted(value) else DetailError(f"A value of column {self.name!r} is not omitted.")
        if self.form == KEYED:
            good = is_keyed(value)
            return None if good else DetailError(f"A value of column {self.name!r} is no keyed digest.")
        if isinstance(value, dict):
            return self._escape_problem(value)
        if not any(canonical_ok(value, kind) for kind in self.types):
            return RecordContractError(f"A value of column {self.name!r} is no canonical {self.types[0].kind}.")
        if _json_bytes(value, self.inline_limit) > self.inline_limit:
            return RecordContractError(f"A value of column {self.name!r} is longer than inline_limit.")
        return None

    def _escape_problem(self, value: dict[str, Any]) -> DeltaError | None:
        members = set(value)
        if members == {"bytes", "sha256"}:
            size = value["bytes"]
            long = isinstance(size, int) and not isinstance(size, bool) and size > self.inline_limit
            good = long and is_digest(value["sha256"])
        elif members == {"unparsed"}:
            good = self.unparsed and isinstance(value["unparsed"], str)
        elif members == {"wtf8"}:
            good = any(canonical_ok(value, kind) for kind in self.types)
        else:
            return DetailError(f"A value of column {self.name!r} is not in clear.")
        if good and members != {"bytes", "sha256"}:
            good = len(jsonc.dumps(value)) <= self.inline_limit
        return None if good else RecordContractError(f"A value of column {self.name!r} is no escape of this format.")


def _json_bytes(value: Any, limit: int) -> int:
    """Return the length of a value's canonical JSON; short texts are not serialised to tell that they fit."""
    if value is None or isinstance(value, bool):
        return 0
    if isinstance(value, str) and len(value) * 6 + 2 <= limit:
        return 0
    return len(jsonc.dumps(value))


def is_keyed(value: Any) -> bool:
    """Tell whether a value is ``{"hmac", "key"}``."""
    keyed = isinstance(value, dict) and set(value) == {"hmac", "key"}
    return keyed and is_digest(value["hmac"]) and is_hmac_key_id(value["key"])


def is_omitted(value: Any) -> bool:
    """Tell whether a value is ``{"omitted": true}``; to Python 1 and 1.0 equal true."""
    return isinstance(value, dict) and value == OMITTED_VALUE and value["omitted"] is True


def is_row_digest(value: Any) -> bool:
    """Tell whether a value is ``{"row_digest"}``."""
    return isinstance(value, dict) and set(value) == {"row_digest"} and is_digest(value["row_digest"])


def value_forms(schema: Document, contract: Document) -> dict[str, ValueForm]:
    """Return the form of each compared column, in schema order."""
    detail = {"values": CLEAR, "digests": KEYED, "keys": OMITTED, "counts": OMITTED}[contract["detail"]]
    different, midnight = set(), set()
    for column, _, rule in rules_of(contract):
        if rule["rule"] == "read_as" and rule["otherwise"] == "different":
            different.add(column)
        if rule["rule"] == "date_as_midnight":
            midnight.add(column)
    forms = {}
    for name, kind in schema["columns"]:
        types = [from_schema(kind)]
        if name in midnight:
            types += [LogicalType(other) for other in ("date", "timestamp", "timestamp_tz")]
        form = KEYED if name in contract["sensitive"] else detail
        forms[name] = ValueForm(name, form, tuple(types), schema["inline_limit"], name in different)
    return forms
