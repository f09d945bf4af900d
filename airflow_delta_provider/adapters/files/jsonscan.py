"""Strict JSON Lines: one object a line, numbers as the text that stands there, nothing repaired.

Refused with the number of the line: what is not JSON (NaN and Infinity are not), a line that is no object or blank, a
member that occurs twice in one object, bytes that are not UTF-8. Lone surrogates in escapes are kept.
"""

from __future__ import annotations

import json
import json.decoder
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from airflow_delta_provider.adapters.files.paths import SideFile
from airflow_delta_provider.adapters.files.streams import RECORD_BYTES_MAX, bad_encoding
from airflow_delta_provider.core.errors import SideLineError, shown

BLANKS = " \t\r\n"


class Number(str):
    """The text of a JSON number."""

    __slots__ = ()


class Whole(Number):
    """The text of a JSON number without fraction and exponent."""

    __slots__ = ()


class Members(list):  # type: ignore[type-arg]  # json's hook wants a plain class
    """The members of one object, pairs of name and value in the order of the text."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Sourced:
    """A value with the text from which it was read."""

    value: Any
    source: str


class _LineFault(ValueError):
    """Why a line is refused."""


def _members(pairs: list[tuple[str, Any]]) -> Members:
    if len({name for name, _ in pairs}) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise _LineFault(f"member {shown(twice)} occurs twice in one object")
    return Members(pairs)


def _no_constant(text: str) -> None:
    raise _LineFault(f"{text} is not valid JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_members, parse_float=Number, parse_int=Whole, parse_constant=_no_constant, strict=True
)


@dataclass(frozen=True, slots=True)
class Lines:
    """Objects of consecutive lines; ``first``: the number of the first line."""

    objects: list[Members]
    first: int


def scan(blocks: Iterable[bytes], file: SideFile, sourced: frozenset[str] = frozenset()) -> Iterator[Lines]:
    """Yield the objects of each block; values of members in ``sourced``, objects and arrays come as Sourced.

    Raises: SideLineError with the number of the line that is refused.
    """
    pending, line = b"", 1
    for block in blocks:
        whole, found, rest = (pending + block).rpartition(b"\n")
        if not found:
            if len(rest) > RECORD_BYTES_MAX:
                raise broken(file, line, f"the line has more than {RECORD_BYTES_MAX} bytes")
            pending = rest
            continue
        lines = _objects(whole, line, file, sourced)
        pending, line = rest, line + len(lines.objects)
        yield lines
    if pending:
        yield _objects(pending, line, file, sourced)


def broken(file: SideFile, line: int, why: str) -> SideLineError:
    """Return the refusal of a line."""
    return SideLineError(f"{file.name}, line {line}: {why}.", where=f"{file.name}: line {line}")


def _objects(block: bytes, first: int, file: SideFile, sourced: frozenset[str]) -> Lines:
    try:
        text = block.decode()
    except UnicodeDecodeError as error:
        raise bad_encoding(file, first + block.count(b"\n", 0, error.start)) from error
    objects: list[Members] = []
    for line in text.split("\n"):
        try:
            objects.append(_object(line, sourced))
        except json.JSONDecodeError as error:
            why = "the line is blank" if not line.strip(BLANKS) else f"not valid JSON: {error.msg} at {error.colno}"
            raise broken(file, first + len(objects), why) from error
        except _LineFault as error:
            raise broken(file, first + len(objects), str(error)) from error
        except RecursionError as error:
            raise broken(file, first + len(objects), "arrays and objects are nested too deep") from error
    return Lines(objects, first)


def _object(line: str, sourced: frozenset[str]) -> Members:
    members = _DECODER.decode(line)
    if type(members) is not Members:
        raise _LineFault("the line is no JSON object")
    if any(isinstance(value, list) for _, value in members) or (sourced and any(n in sourced for n, _ in members)):
        return _with_sources(line, sourced)
    return members


def _with_sources(line: str, sourced: frozenset[str]) -> Members:
    """Read an object that is known to be right once more, keeping the texts of its nested and ``sourced`` members."""
    members = Members()
    place = _past_blanks(line, _past_blanks(line, 0) + 1)
    while line[place] == '"':
        name, place = json.decoder.scanstring(line, place + 1, True)  # type: ignore[attr-defined]  # not in the stubs
        start = _past_blanks(line, _past_blanks(line, place) + 1)
        value, end = _DECODER.scan_once(line, start)  # type: ignore[attr-defined]  # not in the stubs
        if isinstance(value, list) or (value is not None and name in sourced):
            value = Sourced(value, line[start:end])
        members.append((name, value))
        place = _past_blanks(line, end)
        if line[place] == ",":
            place = _past_blanks(line, place + 1)
    return members


def _past_blanks(line: str, place: int) -> int:
    while line[place] in BLANKS:
        place += 1
    return place
