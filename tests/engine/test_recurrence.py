"""What comes back: known by id over the log, with the patches in between, and held to a threshold."""

from __future__ import annotations

import json

import patching
import pytest
from patching import Bench

from airflow_delta_provider.cli import main
from airflow_delta_provider.core import log
from airflow_delta_provider.core.errors import InputManifestError, InputPolicyError
from airflow_delta_provider.core.store.local import LocalStore
from airflow_delta_provider.engine.recurrence import Recurrence, find_recurring

PAIR = log.pair_id_of("bench", "bench:source", "bench:target")


@pytest.fixture
def bench(tmp_path) -> Bench:
    """Two tables of three rows that are alike."""
    made = Bench("sqlite", patching.file_uri("sqlite", tmp_path), LocalStore(tmp_path / "store"))
    made.tables("id INTEGER PRIMARY KEY, v TEXT")
    for side in ("source", "target"):
        made.fill(side, [(1, "a"), (2, "b"), (3, "c")])
    return made


def seen(found: Recurrence) -> list[tuple[str, int, int, int]]:
    return [(one.key[0], one.in_a_row, one.runs, one.patched) for one in found.records]


def test_a_patched_difference_that_comes_back_recurs(bench):
    """The pipeline breaks the same row in the same way again: patching it once more would hide that."""
    bench.sql("UPDATE t_target SET v = 'broken' WHERE id = 2")
    bench.apply(bench.compare())
    bench.sql("UPDATE t_target SET v = 'broken' WHERE id = 2", "UPDATE t_target SET v = 'new' WHERE id = 3")
    bench.compare()
    found = find_recurring(bench.store, PAIR)
    assert seen(found) == [("2", 1, 2, 1)]
    assert (found.came_back, found.runs) == (1, 3)


def test_a_difference_that_persists_recurs_though_nobody_patched_it(bench):
    """The same manifest three times is one log entry and three runs; a gap begins the count anew."""
    bench.sql("UPDATE t_target SET v = 'x' WHERE id = 1")
    for _ in range(2):
        bench.compare()
    assert seen(find_recurring(bench.store, PAIR)) == []
    assert seen(find_recurring(bench.store, PAIR, persisting=2)) == [("1", 2, 2, 0)]
    bench.compare()
    assert seen(find_recurring(bench.store, PAIR)) == [("1", 3, 3, 0)]
    bench.sql("UPDATE t_target SET v = 'a' WHERE id = 1")
    bench.compare()
    assert seen(find_recurring(bench.store, PAIR)) == []
    bench.sql("UPDATE t_target SET v = 'x' WHERE id = 1")
    bench.compare()
    assert seen(find_recurring(bench.store, PAIR, persisting=2)) == []


def test_what_a_rollback_brought_back_does_not_recur(bench):
    """Taking a patch back is no fault of the pipeline."""
    bench.sql("UPDATE t_target SET v = 'x' WHERE id = 1")
    bench.rollback(bench.apply(bench.compare()).patch_id)
    bench.compare()
    assert seen(find_recurring(bench.store, PAIR)) == []


def test_a_run_of_another_range_says_nothing_of_a_key(bench):
    """A partial run between two whole ones does not break a row of runs."""
    bench.sql("UPDATE t_target SET v = 'x' WHERE id = 1")
    bench.compare()
    bench.members = {"key_range": {"from": [2]}}
    bench.compare()
    bench.members = {}
    bench.compare()
    assert seen(find_recurring(bench.store, PAIR, persisting=2)) == [("1", 2, 2, 0)]


def test_the_command_lists_what_recurs_and_tells_by_its_exit(bench, tmp_path, capsys):
    """0 nothing, 1 something; for a person and for a program."""
    store = (tmp_path / "store").as_uri()
    bench.sql("UPDATE t_target SET v = 'x' WHERE id = 1")
    bench.compare()
    assert main(["recur", "bench", "--store", store, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == []
    bench.compare()
    assert main(["recur", "bench", "--store", store, "--persisting", "2", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["recurring"], found["came_back"], found["runs"]) == (1, 0, 2)
    assert found["records"][0]["key"] == ["1"]
    assert main(["recur", PAIR, "--store", store, "--persisting", "2"]) == 1
    assert "1 recurring, 0 of them patched before; 2 runs looked at" in capsys.readouterr().out


def test_an_unknown_manifest_and_a_number_below_two_are_refused(bench):
    """No question is answered by a guess."""
    bench.compare()
    with pytest.raises(InputManifestError, match="names no run"):
        find_recurring(bench.store, PAIR, manifest="0" * 64)
    with pytest.raises(InputPolicyError, match="at least 2"):
        find_recurring(bench.store, PAIR, persisting=1)


def test_counts_have_no_records_to_know_again(bench):
    """Such a pair is told so, instead of being called free of recurrence."""
    bench.members = {"detail": "counts"}
    bench.sql("UPDATE t_target SET v = 'x' WHERE id = 1")
    bench.compare()
    with pytest.raises(InputPolicyError, match="keeps no records"):
        find_recurring(bench.store, PAIR)
