"""The fenced blocks of a Markdown file, as the tests of the documentation run them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(r"(?:^<!-- (?P<note>[^\n]*) -->\n)?^```(?P<language>[a-z]*)\n(?P<text>.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, and the comment right before it."""

    language: str
    text: str
    note: str


def blocks_of(path: str) -> list[Block]:
    """Return the fenced blocks of a file of the repository, in order."""
    found = _FENCE.finditer((ROOT / path).read_text(encoding="utf-8"))
    return [Block(match["language"], match["text"], match["note"] or "") for match in found]
