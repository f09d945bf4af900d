"""Values as HTML that hides nothing: escaped, invisible characters written out, differing characters marked, long texts cut."""

from __future__ import annotations

import re
import unicodedata
from difflib import SequenceMatcher
from html import escape

CHARS_SHOWN = 800
"""Characters of one value that the page shows; of a longer one, those round the first difference."""
CHARS_BEFORE = 150
ALIGNED_CHARS_MAX = 80
"""Longest differing part that is aligned character by character; a longer one is marked as a whole."""

_ODD = re.compile(r"[^\x20-\x7e]")
_BLANK = frozenset("\u115f\u1160\u3164\uffa0\u2800\u180e")
_SIGNS = {"\n": "↵\n", "\t": "⇥", "\r": "␍", "\u00a0": "⍽"}
_HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs")

_SPACE = '<i title="U+0020 SPACE">·</i>'

Span = tuple[int, int, bool]


def plain(text: str) -> str:
    """Return a short text, such as a name, as HTML."""
    return _html(text, False)


def bare(text: str) -> str:
    """Return a text for places where no element can stand (an attribute, an option), what is not printable written out."""
    return escape("".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text))


def value(text: str) -> str:
    """Return one value alone as HTML, cut where it is long."""
    return _cut(text, [(0, len(text), False)], 0)


def pair(source: str, target: str) -> tuple[str, str]:
    """Return two values that differ as HTML, with the differing characters marked on both sides."""
    before = _common_prefix(source, target)
    after = _common_prefix(source[before:][::-1], target[before:][::-1])
    middle = (source[before : len(source) - after], target[before : len(target) - after])
    spans: tuple[list[Span], list[Span]] = ([(0, before, False)], [(0, before, False)])
    if max(map(len, middle)) <= ALIGNED_CHARS_MAX:
        for tag, a, b, c, d in SequenceMatcher(None, *middle, autojunk=False).get_opcodes():
            spans[0].append((before + a, before + b, tag != "equal"))
            spans[1].append((before + c, before + d, tag != "equal"))
    else:
        for side, part in zip(spans, middle, strict=True):
            side.append((before, before + len(part), True))
    for side, text in zip(spans, (source, target), strict=True):
        side.append((len(text) - after, len(text), False))
    return _cut(source, spans[0], before), _cut(target, spans[1], before)


def _common_prefix(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike; a combining mark stays with the letter before it."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    while low and any(unicodedata.category(text[low])[0] == "M" for text in (one, other) if low < len(text)):
        low -= 1
    return low


def _cut(text: str, spans: list[Span], at: int) -> str:
    start = 0 if len(text) <= CHARS_SHOWN else max(0, min(at - CHARS_BEFORE, len(text) - CHARS_SHOWN))
    stop = min(len(text), start + CHARS_SHOWN)
    shown = "".join(
        _html(text[max(first, start) : min(last, stop)], marked)
        for first, last, marked in spans
        if max(first, start) < min(last, stop)
    )
    if stop - start == len(text):
        return shown
    note = f"{len(text):,} characters, shown are {start + 1:,} to {stop:,}"
    return f'{shown}<span class="cut">{note}</span>'


def _html(text: str, marked: bool) -> str:
    if not _ODD.search(text):
        shown = escape(text)
    else:
        marks = 0
        parts = []
        for char in text:
            marks = marks + 1 if unicodedata.category(char) in ("Mn", "Me") else 0
            parts.append(_char(char, marks, marked))
        shown = "".join(parts)
    if not marked:
        return shown
    return f"<mark>{shown.replace(' ', _SPACE) if shown.isspace() else shown}</mark>"


def _char(char: str, marks: int, marked: bool) -> str:
    """Return one character; what cannot be seen, or would move others, is written out by its number."""
    if " " <= char <= "~":
        return escape(char)
    category = unicodedata.category(char)
    hidden = category in _HIDDEN or char in _BLANK or 0xFE00 <= ord(char) <= 0xFE0F or 0xE0100 <= ord(char) <= 0xE01EF
    if hidden or marks > 2 or (marked and marks):
        return f'<i title="{_title(char)}">{_SIGNS.get(char, f"U+{ord(char):04X}")}</i>'
    return f'<b title="{_title(char)}">{char}</b>' if marked else char


def _title(char: str) -> str:
    return escape(f"U+{ord(char):04X} {unicodedata.name(char, '')}".strip())
