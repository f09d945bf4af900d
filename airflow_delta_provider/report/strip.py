"""Where in the key space the differences lie: their number in equal slices from the first differing key to the last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from html import escape

from airflow_delta_provider.core.errors import KeyEncodingError, shown
from airflow_delta_provider.core.ids import CATEGORIES
from airflow_delta_provider.core.keys import decode_component, decode_key
from airflow_delta_provider.core.types import LogicalType

SLICES = 60
HEIGHT = 100
_NUMBERS = ("int", "decimal", "float64", "float32")
_BYTES = 7


@dataclass(slots=True)
class Slice:
    """One slice: records by category, and the first and last key in it."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CATEGORIES, 0))
    first: bytes = b""
    last: bytes = b""

    @property
    def records(self) -> int:
        """How many records lie in it."""
        return sum(self.counts.values())


class KeyStrip:
    """Counts records by slices of the key space between two keys.

    Slices are equal in the number that leads the key where it is a number, else in the bytes of the key.
    """

    def __init__(self, first: bytes, last: bytes, types: Sequence[LogicalType]) -> None:
        self._types = list(types)
        self.slices = [Slice() for _ in range(SLICES)]
        self._shared = next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)
        self._numeric = types[0].kind in _NUMBERS and None not in (self._number(first), self._number(last))
        self._lower, self._upper = self._measure(first), self._measure(last)

    def add(self, sort_key: bytes, category: str, count: int = 1) -> None:
        """Count a record, or some that begin at this key; keys come in ascending order."""
        width = self._upper - self._lower
        place = int((self._measure(sort_key) - self._lower) * SLICES / width) if width else 0
        one = self.slices[min(max(place, 0), SLICES - 1)]
        one.counts[category] = one.counts.get(category, 0) + count
        one.first = one.first or sort_key
        one.last = sort_key

    def _measure(self, sort_key: bytes) -> Decimal:
        number = self._number(sort_key) if self._numeric else None
        if number is not None:
            return number
        part = sort_key[self._shared : self._shared + _BYTES]
        return Decimal(int.from_bytes(part.ljust(_BYTES, b"\x00"), "big"))

    def _number(self, sort_key: bytes) -> Decimal | None:
        try:
            text, _ = decode_component(sort_key, 0, self._types[0].kind)
        except KeyEncodingError:
            return None
        number = Decimal(text) if isinstance(text, str) else None
        return number if number is not None and number.is_finite() and abs(number.adjusted()) < 1000 else None

    def label(self, sort_key: bytes) -> str:
        """Return a key for people."""
        try:
            return ", ".join("NULL" if part is None else shown(part) for part in decode_key(sort_key, self._types))
        except KeyEncodingError:
            return f"0x{sort_key.hex()[:32]}"

    def svg(self) -> str:
        """Return the drawing: one bar for each slice, stacked by category."""
        most = max((one.records for one in self.slices), default=0) or 1
        bars = "".join(self._bars(most))
        return (
            f'<svg class="strip" viewBox="0 0 {SLICES * 10} {HEIGHT}" preserveAspectRatio="none" role="img" '
            f'aria-label="Differences along the key space; the table below tells the same in numbers.">{bars}</svg>'
        )

    def _bars(self, most: int) -> Iterator[str]:
        for place, one in enumerate(self.slices):
            if not one.records:
                continue
            title = f"{self.label(one.first)} to {self.label(one.last)}: {one.records} records"
            yield f"<g><title>{escape(title)}</title>"
            top = float(HEIGHT)
            for category, count in one.counts.items():
                height = max(count * HEIGHT / most, 1.5 if count else 0)
                top -= height
                if count:
                    yield (
                        f'<rect class="{category}" x="{place * 10 + 1}" y="{max(top, 0):.2f}" width="8" '
                        f'height="{height:.2f}"/>'
                    )
            yield "</g>"
