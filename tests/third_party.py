"""Where vectors published by others lie: beside the repository, or in the folder that DELTA_THIRD_PARTY names."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "vectors" / "third-party"


def published(name: str) -> Any:
    """Return a published JSON file, such as ``dsse/reference_vectors.json``, or skip and say what is missing."""
    path = Path(os.environ.get("DELTA_THIRD_PARTY", BESIDE)) / name
    if not path.exists():
        pytest.skip(f"published vectors are not here: {name} (set DELTA_THIRD_PARTY to their folder)")
    return json.loads(path.read_text(encoding="utf-8"))
