"""SQL text and the values bound into it, kept apart until a driver takes them: no value is ever written into text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Value:
    """One value that the driver binds."""

    value: Any


@dataclass(frozen=True, slots=True)
class Statement:
    """Pieces of SQL text and bound values, in order."""

    parts: tuple[str | Value, ...]

    def render(self, style: str) -> tuple[str, list[Any]]:
        """Return the text for a driver and the values in order.

        ``style`` is the PEP 249 name of the driver's placeholders: ``qmark`` or ``format`` (under which every percent
        sign of the text is doubled, those inside literals of a filter included).
        """
        pieces: list[str] = []
        values: list[Any] = []
        for part in self.parts:
            if isinstance(part, Value):
                pieces.append("%s" if style == "format" else "?")
                values.append(part.value)
            else:
                pieces.append(part.replace("%", "%%") if style == "format" else part)
        return "".join(pieces), values


def sql(*parts: str | Value | Statement) -> Statement:
    """Put texts, values and statements together, in order."""
    flat: list[str | Value] = []
    for part in parts:
        if isinstance(part, Statement):
            flat.extend(part.parts)
        else:
            flat.append(part)
    return Statement(tuple(flat))


def joined(separator: str, items: Iterable[Statement]) -> Statement:
    """Put statements together with a text between each two."""
    parts: list[str | Value | Statement] = []
    for item in items:
        if parts:
            parts.append(separator)
        parts.append(item)
    return sql(*parts)
