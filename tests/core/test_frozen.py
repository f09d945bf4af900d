"""The published vectors stay what they were published as: docs/versioning.md."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from airflow_delta_provider import core

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "tests" / "vectors"
FROZEN = ROOT / "tests" / "frozen_vectors.txt"
PAGE = (ROOT / "docs" / "versioning.md").read_text(encoding="utf-8")


def test_a_frozen_vector_never_changes_and_never_goes():
    """Somebody's verifier was written against it. What must change gets a new format version and new files."""
    lines = FROZEN.read_text(encoding="utf-8").splitlines()
    frozen = dict(reversed(line.split("  ", 1)) for line in lines)
    now = {name: hashlib.sha256((VECTORS / name).read_bytes()).hexdigest() for name in frozen}
    assert now == frozen
    assert len(frozen) == len(lines) == 62


def test_every_vector_is_frozen():
    """One that is not listed could be changed without a word."""
    names = {path.relative_to(VECTORS).as_posix() for path in VECTORS.rglob("*") if path.is_file()}
    listed = {line.split("  ", 1)[1] for line in FROZEN.read_text(encoding="utf-8").splitlines()}
    assert names - listed == {"README.md"}


def test_every_format_has_its_place_in_the_policy():
    """A format that is written and not named there has no promise, and nobody knows."""
    package = Path(str(core.__file__)).parents[1]
    written: set[str] = set()
    for path in package.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        written |= set(re.findall(r'(?<!b)"(delta-[a-z-]+/[0-9]+)"', text))
        written |= set(re.findall(r'b"(delta-(?:store|sealed)/[0-9]+)', text))
    assert written == set(re.findall(r"`(delta-[a-z-]+/[0-9]+)`", PAGE))
