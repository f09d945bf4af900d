"""A look at some shards: each is proved for itself, and none is taken for the whole."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from memory_side import MemorySide, opener, spec_form, typed

from airflow_delta_provider.cli import main
from airflow_delta_provider.core.errors import WallLimitError
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.engine.sample import sample, spread


@pytest.mark.parametrize(
    ("of", "count", "places"),
    [(10, 3, [1, 5, 8]), (3, 5, [0, 1, 2]), (1, 1, [0]), (100, 2, [25, 75])],
)
def test_a_sample_is_spread_over_the_plan(of, count, places):
    """The first shards alone are the oldest rows alone."""
    assert spread(of, count) == places


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """The arguments that compare two tables in ten shards; row 50 differs."""
    for name, changed in (("old", 0), ("new", 1)):
        with sqlite3.connect(tmp_path / f"{name}.db") as connection:
            connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER)")
            connection.executemany("INSERT INTO t VALUES (?, ?)", [(n, changed * (n == 50)) for n in range(100)])
        connection.close()
    sides = {
        side: {"uri": f"sqlite:///{tmp_path}/{name}.db", "table": "t", "label": name}
        for side, name in (("source", "old"), ("target", "new"))
    }
    form = {"name": "pair", **sides, "shards": {"bounds": [[number] for number in range(10, 100, 10)]}}
    (tmp_path / "pair.yaml").write_text(json.dumps(form))
    return ["run", str(tmp_path / "pair.yaml"), "--store", str(tmp_path / "store")]


def test_a_sample_stores_sub_manifests_and_gives_no_verdict(command, tmp_path, capsys):
    """Each is a true manifest of its key range; the log of the pair stays empty, so no gate takes it for the whole."""
    assert main([*command, "--sample", "3", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["shards"]) == (None, 10)
    assert [one["label"] for one in found["sample"]] == ["[10 .. 20)", "[50 .. 60)", "[80 .. 90)"]
    assert [one["categories"]["value_diverged"] for one in found["sample"]] == [0, 1, 0]
    assert main(["show", found["sample"][1]["manifest"], "--store", str(tmp_path / "store"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["manifest"]["body"]["records"] == 1
    assert list((tmp_path / "store").rglob("log/*")) == []
    assert main([*command, "--sample", "1"]) == 1
    assert "1 of 10 shards were compared; there is no verdict on the whole" in capsys.readouterr().out


def test_a_part_of_a_sample_is_verified_as_a_part(command, tmp_path, capsys):
    """It is proved for its keys and nothing else; who does not ask for a part may be looking at a log that was cut."""
    assert main([*command, "--sample", "3", "--json"]) == 1
    part = json.loads(capsys.readouterr().out)["sample"][1]["manifest"]
    verify = ["verify", part, "--store", str(tmp_path / "store")]

    def answer(*options: str) -> tuple[int, str, list[str], Any]:
        code = main([*verify, *options, "--json"])
        found = json.loads(capsys.readouterr().out)
        return code, found["verdict"], [one["code"] for one in found["findings"]], found["notes"]

    note = "Never published. It speaks of the keys 202132 .. 20213c alone and is no verdict on the pair."
    assert answer() == (1, "findings", ["DELTA_LOG_GAP", "DELTA_STORE_MISSING"], [])
    assert answer("--part") == (0, "part", [], [note])
    assert main([*verify, "--part"]) == 0
    assert "verdict   verified as a part; none on the whole\n" in capsys.readouterr().out

    for path in (tmp_path / "store" / "blobs").rglob("*"):
        if path.is_file() and b'"value_diverged"' in path.read_bytes() and path.name != part:
            path.chmod(0o644)
            path.write_bytes(path.read_bytes().replace(b"value_diverged", b"value_diverge_"))
    code, verdict, codes, _ = answer("--part")
    assert (code, verdict) == (1, "findings")
    assert "DELTA_BODY_DIGEST" in codes


def test_a_published_manifest_is_verified_as_a_whole_also_where_a_part_is_asked_for(command, tmp_path, capsys):
    """Asking for less may hide nothing of what is there."""
    assert main([*command, "--json"]) == 1
    whole = json.loads(capsys.readouterr().out)["manifest"]
    assert main(["verify", whole, "--store", str(tmp_path / "store"), "--part", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "verified"
    assert main(["verify", "pair", "--store", str(tmp_path / "store"), "--part"]) == 2
    assert "--part takes the DIGEST of one manifest" in capsys.readouterr().err


def test_a_sample_keeps_to_the_seconds_that_a_run_may_take():
    """Whoever bounds the time on a production server bounds a look at it too."""
    import time

    one = MemorySide(typed(id="int"), [(str(number),) for number in range(1000)], batch_rows=10)
    other = MemorySide(typed(id="int"), [(str(number),) for number in range(1000)], batch_rows=10)
    one.before_batch = lambda number: time.sleep(0.05)
    spec = parse_spec(spec_form(key=["id"], limits={"max_seconds": 1}))
    with pytest.raises(WallLimitError, match="the run took longer than 1 s"):
        sample(spec, MemoryStore(), opener(one, other), count=1)
