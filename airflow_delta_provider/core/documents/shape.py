"""Exact-member checks that every document shares: each check names the place and raises the document's own error."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.errors import DeltaError, FormatError, RangeError, SchemaError, shown
from airflow_delta_provider.core.ids import is_digest
from airflow_delta_provider.core.types import KEY_KINDS, LogicalType, from_schema

Document = dict[str, Any]
"""One parsed document: exactly the members that docs/format.md names, values checked."""

VERSION_BYTES_MAX = 64
INTEGER_MAX = 2**53 - 1

_HEX = re.compile(r"(?:[0-9a-f]{2})*")
_FORMAT = re.compile(r"(delta-[a-z]+)/[0-9]+")


@dataclass(frozen=True, slots=True)
class Shape:
    """The checks of one kind of document.

    Shape: ``document`` is its name in messages, ``error`` the class that every check raises.
    """

    document: str
    error: type[DeltaError]

    def refuse(self, place: str, problem: str) -> DeltaError:
        """Return the error for one place, to be raised by the caller."""
        return self.error(f"{self.document}: {place} {problem}.", where=place)

    def members(self, value: object, place: str, names: Sequence[str]) -> Document:
        """Return an object that has exactly these members."""
        if not isinstance(value, dict):
            raise self.refuse(place, "is no object")
        missing = [name for name in names if name not in value]
        unknown = [name for name in value if name not in names]
        if missing:
            raise self.refuse(place, f"lacks {missing[0]!r}")
        if unknown:
            raise self.refuse(place, f"has the unknown member {shown(unknown[0])!r}")
        return value

    def items(self, value: object, place: str, length: int | None = None) -> list[Any]:
        """Return a list, of this length where one is given."""
        if not isinstance(value, list) or (length is not None and len(value) != length):
            raise self.refuse(place, "is no list" if length is None else f"is no list of {length}")
        return value

    def text(self, value: object, place: str, *, empty: bool = True) -> str:
        """Return a text."""
        if not isinstance(value, str) or not (value or empty):
            raise self.refuse(place, "is no text" if empty else "is no text with a character in it")
        return value

    def choice(self, value: object, place: str, choices: Sequence[str]) -> str:
        """Return one of some texts."""
        if not isinstance(value, str) or value not in choices:
            raise self.refuse(place, f"is {shown(value)!r}, not one of {', '.join(choices)}")
        return value

    def flag(self, value: object, place: str) -> bool:
        """Return true or false."""
        if not isinstance(value, bool):
            raise self.refuse(place, "is neither true nor false")
        return value

    def count(self, value: object, place: str) -> int:
        """Return an integer from 0 to 2^53-1."""
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= INTEGER_MAX:
            raise self.refuse(place, "is no count")
        return value

    def digest(self, value: object, place: str) -> str:
        """Return the text of a SHA-256."""
        if not is_digest(value):
            raise self.refuse(place, "is not 64 lower-case hex digits")
        return str(value)

    def hex(self, value: object, place: str) -> str:
        """Return bytes as lower-case hex."""
        if not isinstance(value, str) or not _HEX.fullmatch(value):
            raise self.refuse(place, "is no lower-case hex")
        return value

    def version(self, value: object, place: str) -> str:
        """Return a version: 1 to 64 bytes of text."""
        text = self.text(value, place)
        if not 1 <= len(text.encode()) <= VERSION_BYTES_MAX:
            raise self.refuse(place, f"is not 1 to {VERSION_BYTES_MAX} bytes long")
        return text

    def reference(self, value: object, place: str) -> Document:
        """Return ``{"sha256", "version"}``: how one document names another."""
        reference = self.members(value, place, ("sha256", "version"))
        self.digest(reference["sha256"], f"{place}.sha256")
        self.version(reference["version"], f"{place}.version")
        return reference

    def block(self, value: object, place: str) -> Document:
        """Return a body block: ``{"bytes", "records", "root", "sha256"}``."""
        block = self.members(value, place, ("bytes", "records", "root", "sha256"))
        self.count(block["bytes"], f"{place}.bytes")
        self.count(block["records"], f"{place}.records")
        self.digest(block["root"], f"{place}.root")
        self.digest(block["sha256"], f"{place}.sha256")
        return block

    def key(self, value: object, place: str) -> Document:
        """Return ``{"columns", "types"}``: at least one column, each of a type that can be a key."""
        key = self.members(value, place, ("columns", "types"))
        columns = self.items(key["columns"], f"{place}.columns")
        types = self.items(key["types"], f"{place}.types", len(columns))
        self.unique(columns, f"{place}.columns")
        if not columns:
            raise self.refuse(place, "names no column")
        for index, kind in enumerate(types):
            self.choice(kind, f"{place}.types[{index}]", KEY_KINDS)
        return key

    def key_range(self, value: object, place: str) -> Document:
        """Return ``{"lower", "upper"}``: hex or null, half-open.

        Raises: RangeError (DELTA_RANGE) where no key can lie between them.
        """
        bounds = self.members(value, place, ("lower", "upper"))
        lower, upper = (None if bounds[side] is None else self.hex(bounds[side], f"{place}.{side}") for side in bounds)
        if upper is not None and (lower or "") >= upper:
            raise RangeError(f"{self.document}: {place} [{lower}, {upper}) holds no key.", where=place)
        return bounds

    def pair(self, value: object, place: str) -> Document:
        """Return ``{"name", "source", "target"}``."""
        pair = self.members(value, place, ("name", "source", "target"))
        for member in pair:
            self.text(pair[member], f"{place}.{member}", empty=False)
        return pair

    def unique(self, names: Sequence[object], place: str) -> None:
        """Check a list of different texts."""
        for index, name in enumerate(names):
            self.text(name, f"{place}[{index}]")
        if len(set(names)) != len(names):
            raise self.refuse(place, "names something twice")

    def sorted_by_bytes(self, names: Sequence[str], place: str) -> None:
        """Check that texts are different and ascend by their UTF-8 bytes."""
        self.unique(names, place)
        encoded = [name.encode() for name in names]
        if encoded != sorted(encoded):
            raise self.refuse(place, "is not sorted by the bytes of its names")

    def logical_type(self, value: object, place: str) -> LogicalType:
        """Return a logical type, read from its form in a schema document."""
        try:
            kind = from_schema(value)
        except SchemaError as error:
            raise self.refuse(place, f"is {shown(value)!r}, no logical type") from error
        _check_map_keys(kind, lambda: self.refuse(place, "has a map whose keys have no key bytes"))
        return kind

    def parse(self, data: bytes, form: str, members: Sequence[str]) -> Document:
        """Parse canonical JSON with exactly these members and this ``format``.

        Raises: JsonSyntaxError, JsonDomainError, JsonNotCanonicalError; FormatError (DELTA_FORMAT) for another
        version of the same format; the document's own error for everything else.
        """
        value = jsonc.loads(data)
        named = value.get("format") if isinstance(value, dict) else None
        if named != form and isinstance(named, str):
            match = _FORMAT.fullmatch(named)
            if match and match.group(1) == form.split("/")[0]:
                raise FormatError(f"{self.document}: this version reads {form}, not {shown(named)}.", where="format")
        document = self.members(value, "document", members)
        self.choice(document["format"], "format", (form,))
        return document


def _check_map_keys(kind: LogicalType, refuse: Callable[[], DeltaError]) -> None:
    if kind.map_key is not None and kind.map_key.kind not in KEY_KINDS:
        raise refuse()
    for part in (kind.item, kind.map_key, *(part for _, part in kind.fields)):
        if part is not None:
            _check_map_keys(part, refuse)
