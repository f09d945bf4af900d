"""Where the published vectors stand: ours inside the repository, those of others beside it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

VECTORS = Path(__file__).parent / "vectors"
THIRD_PARTY = Path(
    os.environ.get("DELTA_THIRD_PARTY", Path(__file__).parents[2] / "shared" / "vectors" / "third-party")
)


def vectors(name: str) -> Any:
    """Return a JSON vector file of this repository."""
    return json.loads((VECTORS / name).read_text(encoding="utf-8"))


def third_party(name: str) -> Path:
    """Return a file of the third-party vectors, or skip the test naming the folder that is missing."""
    path = THIRD_PARTY / name
    if not path.exists():
        pytest.skip(f"third-party vectors are not at {THIRD_PARTY}; set DELTA_THIRD_PARTY")
    return path
