"""A look at some shards: each is proved for itself, and none is taken for the whole."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

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


def test_a_sample_keeps_to_the_seconds_that_a_run_may_take():
    """Whoever bounds the time on a production server bounds a look at it too."""
    import time

    one = MemorySide(typed(id="int"), [(str(number),) for number in range(1000)], batch_rows=10)
    other = MemorySide(typed(id="int"), [(str(number),) for number in range(1000)], batch_rows=10)
    one.before_batch = lambda number: time.sleep(0.05)
    spec = parse_spec(spec_form(key=["id"], limits={"max_seconds": 1}))
    with pytest.raises(WallLimitError, match="the run took longer than 1 s"):
        sample(spec, MemoryStore(), opener(one, other), count=1)
