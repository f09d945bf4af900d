"""The tour of CONTRIBUTING.md leads past files and names that are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOUR = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## The code in thirty minutes")[2]


def test_every_stop_of_the_tour_is_there():
    """A tour to a file that moved is worse than none."""
    package = ROOT / "airflow_delta_provider"
    named = set(re.findall(r"`([a-z_/]+\.py|[a-z]+/[a-z/]*)`", TOUR))
    assert len(named) > 25
    assert [name for name in named if not (package / name).exists() and not (ROOT / name).exists()] == []


def test_every_function_of_the_tour_is_in_its_file():
    """Each is named behind the file that holds it."""
    package = ROOT / "airflow_delta_provider"
    pairs = re.findall(r"`([a-z_/]+\.py)`, `([A-Za-z_]+)`(?: and `([A-Za-z_]+)`)?", TOUR)
    assert len(pairs) >= 12
    for name, *functions in pairs:
        text = (package / name).read_text(encoding="utf-8")
        for function in filter(None, functions):
            assert re.search(rf"^(?:def|class) {function}\b", text, re.M), (name, function)
