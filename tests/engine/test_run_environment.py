"""Hash seed, time zone, locale, folder and batch size: none of them shows in a digest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
from memory_side import MemorySide, opener, spec_form, typed
from airflow_delta_provider.core.recorded import HmacKey
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.engine.run import reconcile

types = typed(name="text", day="date", v="timestamp_tz", w="timestamp", x="float64", y="decimal", z="text", secret="text")
row = ("\\u0130stanbul", "2024-03-31", "2024-03-31T01:30:00.5Z", "2024-03-31T02:30:00", "0.1", "1000.5", "\\u00df", "s")
source = [row, ("i", *row[1:]), ("I", *row[1:]), ("a", None, *row[2:])]
target = [row, ("i", *row[1:6], "SS", "t"), ("b", *row[1:])]
form = spec_form(
    key=["name", "day"],
    keys={"nulls": "match"},
    rules={"z": [{"normalize": ["casefold"]}], "w": [{"read_as": {"type": "timestamp_tz", "zone": "Europe/Rome",
           "skipped": "before"}}]},
    sensitive=["secret"],
)
outcome = reconcile(
    parse_spec(form), MemoryStore(), opener(MemorySide(types, source), MemorySide(types, target)),
    shards=3, hmac_key=HmacKey("k", b"key"),
)
print(json.dumps([outcome.receipt.manifest, outcome.records]))
"""


EVERYWHERE = "5f2ea9b084644c7a6d50a0a5377a6c6746254d286587121d6daf88afbd5fdadd"
"""The digest on Python 3.11, 3.12 and 3.13 alike; `make test-matrix` runs this file under each that is at hand."""


def result(folder: Path, **environment: str) -> tuple[str, int]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "TZ", "PYTHON"))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(TESTS)],
        cwd=folder,
        env={**env, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    manifest, records = json.loads(done.stdout)
    return manifest, records


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, int]:
    found = result(tmp_path_factory.mktemp("plain"))
    assert found == (EVERYWHERE, 4)
    return found


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONHASHSEED": "0", "TZ": "Pacific/Kiritimati", "LC_ALL": "C"},
        {"PYTHONHASHSEED": "4294967295", "TZ": "America/St_Johns", "LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8"},
        {"PYTHONHASHSEED": "random", "TZ": "Asia/Kolkata", "LC_ALL": "de_DE.UTF-8", "LC_NUMERIC": "de_DE.UTF-8"},
        {"PYTHONUTF8": "0", "TZ": "Antarctica/Troll", "LC_ALL": "POSIX", "PYTHONOPTIMIZE": "2"},
        {"PYTHONWARNINGS": "error::EncodingWarning", "PYTHONDEVMODE": "1"},
    ],
    ids=["zero seed, far east", "last seed, Turkish", "random seed, German", "POSIX, optimised", "development mode"],
)
def test_the_surroundings_of_a_run_do_not_show(environment, reference, tmp_path):
    """Turkish dotless i, commas for points, half-hour zones: as on any other machine."""
    assert result(tmp_path, **environment) == reference
