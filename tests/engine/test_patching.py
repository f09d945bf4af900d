"""Patches on every engine: minimal writes, conflicts, refusals, row order, and the way back."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import patching
import pytest
from patching import Bench

from airflow_delta_provider.core import jsonc, log
from airflow_delta_provider.core.errors import (
    CheckpointMismatchError,
    CheckpointRequiredError,
    InputPolicyError,
    LedgerMismatchError,
    PatchManifestError,
    PatchRuleError,
    PatchShareError,
    PatchSideError,
    PatchUnsafeError,
    PatchWriteError,
)
from airflow_delta_provider.core.patch import PatchRule
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.core.verify_store import verify_published
from airflow_delta_provider.engine.patching import PatchOptions


@pytest.fixture(params=patching.ENGINES)
def bench_of(request, tmp_path) -> Callable[..., Bench]:
    """Make a bench over an empty database of each engine."""

    def make(**members: Any) -> Bench:
        engine = request.param
        if engine in ("sqlite", "duckdb"):
            uri = patching.file_uri(engine, tmp_path)
        else:
            uri = request.getfixturevalue("postgresql_database" if engine == "postgresql" else "mariadb_database")
        return Bench(engine, uri, **members)

    return make


def filled(bench: Bench, columns: str = "id INTEGER PRIMARY KEY, v VARCHAR(40), note VARCHAR(40)") -> str:
    """Fill two tables that differ in every way, ``note`` left out, and return the manifest."""
    bench.tables(columns)
    bench.fill("source", [(1, "s1", "x"), (2, "s2", "x"), (3, "s3", "x"), (5, "same", "x")])
    bench.fill("target", [(1, "t1", "n1"), (2, "t2", "n2"), (4, "t4", "n4"), (5, "same", "n5")])
    return bench.compare()


EXCLUDED = {"columns": {"exclude": ["note"]}}
BEFORE = [(1, "t1", "n1"), (2, "t2", "n2"), (4, "t4", "n4"), (5, "same", "n5")]
AFTER = [(1, "s1", "n1"), (2, "s2", "n2"), (3, "s3", None), (5, "same", "n5")]


def test_a_patch_writes_what_differs_and_nothing_else(bench_of):
    """Columns that are not compared keep their values; a row that is equal is not touched."""
    bench = bench_of(**EXCLUDED)
    manifest = filled(bench)
    outcome = bench.apply(manifest)
    assert bench.rows() == AFTER
    assert dict(outcome.outcomes) == {"already": 0, "applied": 4, "conflict": 0, "skipped": 0}
    assert outcome.proved and not outcome.left and outcome.converged
    check, _ = verify_published(bench.store, manifest)
    assert check.verdict == "verified"


def test_a_second_apply_changes_nothing_and_logs_nothing_twice(bench_of):
    """Repeating a finished patch is harmless: same ledger, same rows, no further entry of it."""
    bench = bench_of(**EXCLUDED)
    manifest = filled(bench)
    first = bench.apply(manifest)
    bench.sql("UPDATE t_target SET v = 'foreign' WHERE id = 1")
    second = bench.apply(manifest)
    assert (second.patch_id, second.ledger) == (first.patch_id, first.ledger)
    assert bench.rows()[0] == (1, "foreign", "n1")
    assert not second.proved and [row["key"] for row in second.left] == [["1"]]
    kinds = [entry.kind for entry in log.read_log(bench.store, pair_of(bench))]
    assert kinds.count("ledger") == kinds.count("checkpoint") == 1


def test_a_rollback_brings_back_every_column_and_the_old_manifest(bench_of):
    """A deleted row comes back whole, the column that was left out included, and the comparison proves it."""
    bench = bench_of(**EXCLUDED)
    manifest = filled(bench)
    patch = bench.apply(manifest).patch_id
    bench.sql("UPDATE t_target SET note = 'later' WHERE id = 1")
    outcome = bench.rollback(patch)
    assert bench.rows() == [(1, "t1", "later"), *BEFORE[1:]]
    assert outcome.proved and outcome.converged == manifest
    assert dict(outcome.outcomes) == {"already": 0, "applied": 4, "conflict": 0, "skipped": 0}
    again = bench.rollback(patch)
    assert again.ledger == outcome.ledger and bench.rows() == [(1, "t1", "later"), *BEFORE[1:]]
    with pytest.raises(CheckpointMismatchError, match="taken back"):
        bench.apply(manifest)
    assert verify_published(bench.store, manifest)[0].findings == []


def test_a_row_written_after_the_comparison_refuses_the_patch_as_a_whole(bench_of):
    """All or nothing is the default, and the refusal names the row; nothing stays in the store."""
    bench = bench_of(**EXCLUDED)
    manifest = filled(bench)
    bench.sql("UPDATE t_target SET v = 'human' WHERE id = 2")
    outcome = bench.apply(manifest)
    assert bench.rows() == [BEFORE[0], (2, "human", "n2"), *BEFORE[2:]]
    assert not outcome.applied and outcome.converged is None
    assert [(row["key"], row["reason"]) for row in outcome.conflicts] == [(["2"], "DELTA_PATCH_CONFLICT")]
    assert [entry.kind for entry in log.read_log(bench.store, pair_of(bench))] == ["sidecar", "manifest"]


def test_conflicts_are_left_and_listed_where_asked(bench_of):
    """The other rows are repaired; the conflict stands in the ledger, and a rollback leaves that row alone too."""
    bench = bench_of(**EXCLUDED)
    manifest = filled(bench)
    bench.sql("DELETE FROM t_target WHERE id = 2", "UPDATE t_target SET v = 'human' WHERE id = 4")
    outcome = bench.apply(manifest, conflicts="skip")
    assert bench.rows() == [AFTER[0], AFTER[2], (4, "human", "n4"), AFTER[3]]
    assert dict(outcome.outcomes) == {"already": 0, "applied": 2, "conflict": 2, "skipped": 0}
    assert [row["key"] for row in outcome.conflicts] == [["2"], ["4"]]
    assert [row["reason"] for row in outcome.left] == ["DELTA_PATCH_CONFLICT"] * 2
    bench.rollback(outcome.patch_id)
    assert bench.rows() == [BEFORE[0], (4, "human", "n4"), BEFORE[3]]


def test_a_row_written_between_checkpoint_and_write_is_a_conflict(bench_of):
    """The guard covers every compared column, also those that the patch does not change."""
    bench = bench_of()
    bench.tables("id INTEGER PRIMARY KEY, a INTEGER, b INTEGER")
    bench.fill("source", [(1, 1, 1), (2, 2, 2)])
    bench.fill("target", [(1, 10, 1), (2, 20, 2)])
    manifest = bench.compare()
    foreign = at("begin", lambda: bench.sql("UPDATE t_target SET b = 99 WHERE id = 1"), bench)
    outcome = bench.apply(manifest, step=foreign)
    assert not outcome.applied and [row["key"] for row in outcome.conflicts] == [["1"]]
    assert bench.rows() == [(1, 10, 99), (2, 20, 2)]
    outcome = bench.apply(manifest, conflicts="skip")
    assert bench.rows() == [(1, 10, 99), (2, 2, 2)]
    assert dict(outcome.outcomes) == {"already": 0, "applied": 1, "conflict": 1, "skipped": 0}


def test_a_row_inserted_between_checkpoint_and_write_is_a_conflict(bench_of):
    """An insert never becomes an update of somebody else's row."""
    bench = bench_of()
    bench.tables("id INTEGER PRIMARY KEY, a INTEGER")
    bench.fill("source", [(1, 1), (2, 2)])
    manifest = bench.compare()
    foreign = at("begin", lambda: bench.sql("INSERT INTO t_target VALUES (1, 7)"), bench)
    outcome = bench.apply(manifest, conflicts="skip", step=foreign)
    assert bench.rows() == [(1, 7), (2, 2)]
    assert [row["key"] for row in outcome.conflicts] == [["1"]]


def test_a_deleted_row_whose_left_out_column_changed_is_a_conflict(bench_of):
    """Deleting it would lose a write that no checkpoint has."""
    bench = bench_of(**EXCLUDED)
    manifest = filled(bench)
    foreign = at("begin", lambda: bench.sql("UPDATE t_target SET note = 'new' WHERE id = 4"), bench)
    outcome = bench.apply(manifest, conflicts="skip", step=foreign)
    assert (4, "t4", "new") in bench.rows()
    assert [row["key"] for row in outcome.conflicts] == [["4"]]


def test_a_rollback_refuses_where_a_row_is_no_longer_what_the_patch_left(bench_of):
    """Drift after the patch is somebody's work: the rollback names it and changes nothing; asked to, it skips it."""
    bench = bench_of(**EXCLUDED)
    patch = bench.apply(filled(bench)).patch_id
    bench.sql("UPDATE t_target SET v = 'human' WHERE id = 2")
    drifted = bench.rows()
    outcome = bench.rollback(patch)
    assert not outcome.applied and [row["key"] for row in outcome.conflicts] == [["2"]]
    assert bench.rows() == drifted
    bench.sql("UPDATE t_target SET v = 's2' WHERE id = 2", "DELETE FROM t_target WHERE id = 3")
    bench.fill("target", [(4, "again", "z")])
    assert [row["key"] for row in bench.rollback(patch).conflicts] == [["3"], ["4"]]
    outcome = bench.rollback(patch, conflicts="skip")
    assert bench.rows() == [BEFORE[0], BEFORE[1], (4, "again", "z"), BEFORE[3]]
    assert not outcome.proved


def test_last_writer_wins_by_the_column_as_it_is_read(bench_of):
    """The later row wins on either side; ties, NULL and one-sided rows go to a person, each with its reason."""
    rule = PatchRule("last_writer_wins", "seen")
    bench = bench_of()
    bench.tables("id INTEGER PRIMARY KEY, v VARCHAR(9), seen INTEGER")
    bench.fill("source", [(1, "s", 2), (2, "s", 1), (3, "s", 5), (4, "s", None), (5, "s", 1)])
    bench.fill("target", [(1, "t", 1), (2, "t", 2), (3, "t", 5), (4, "t", 4), (6, "t", 1)])
    manifest = bench.compare()
    outcome = bench.apply(manifest, rule=rule)
    assert bench.rows()[:4] == [(1, "s", 2), (2, "t", 2), (3, "t", 5), (4, "t", 4)]
    assert {row["key"][0]: row["reason"] for row in outcome.skipped} == {
        "2": "DELTA_PATCH_NEWER",
        "3": "DELTA_PATCH_TIE",
        "4": "DELTA_PATCH_TIE",
        "5": "DELTA_PATCH_ONE_SIDED",
        "6": "DELTA_PATCH_ONE_SIDED",
    }
    with pytest.raises(PatchRuleError, match="seen"):
        bench.apply(manifest, rule=PatchRule("last_writer_wins", "missing"))


def test_the_source_is_patched_where_it_is_the_older_one(bench_of):
    """Side ``source`` turns the change set round."""
    rule = PatchRule("last_writer_wins", "seen", "source")
    bench = bench_of()
    bench.tables("id INTEGER PRIMARY KEY, v VARCHAR(9), seen INTEGER")
    bench.fill("source", [(1, "s", 1)])
    bench.fill("target", [(1, "t", 2)])
    outcome = bench.apply(bench.compare(), rule=rule)
    assert bench.rows("source") == [(1, "t", 2)] and outcome.proved
    bench.rollback(outcome.patch_id)
    assert bench.rows("source") == [(1, "s", 1)]


def test_flag_for_review_writes_nothing(bench_of):
    """A review list is the whole result."""
    bench = bench_of(**EXCLUDED)
    outcome = bench.apply(filled(bench), rule=PatchRule("flag_for_review"))
    assert bench.rows() == BEFORE
    assert {row["reason"] for row in outcome.skipped} == {"DELTA_PATCH_REVIEW"} and len(outcome.skipped) == 4
    assert not outcome.proved and len(outcome.left) == 4


def test_a_plan_shows_the_statements_and_changes_nothing(bench_of):
    """What would run is shown with its values; neither table nor store is touched."""
    bench = bench_of(**EXCLUDED)
    manifest = filled(bench)
    bench.sql("UPDATE t_target SET v = 'human' WHERE id = 2")
    plan = bench.plan(manifest)
    assert dict(plan.counts) == {"insert": 1, "update": 1, "delete": 1}
    assert plan.outcomes["conflict"] == 1 and [row["key"] for row in plan.excluded] == [["2"]]
    assert [statement["op"] for statement in plan.statements] == ["delete", "update", "insert"]
    assert all(statement["sql"].split()[0].lower() == statement["op"] for statement in plan.statements)
    assert "s1" in json.dumps(plan.document())
    assert [entry.kind for entry in log.read_log(bench.store, pair_of(bench))] == ["sidecar", "manifest"]
    assert bench.rows()[0] == BEFORE[0]


def test_unique_values_are_exchanged_in_one_transaction(bench_of):
    """Two rows swap, a chain moves on, a value goes from a deleted row to a new one; the way back works too."""
    bench = bench_of()
    bench.tables("id INTEGER PRIMARY KEY, pos INTEGER NOT NULL UNIQUE, name VARCHAR(20) UNIQUE")
    bench.fill("source", [(1, 2, "b"), (2, 1, "a"), (3, 4, None), (4, 3, "d"), (7, 9, "z")])
    bench.fill("target", [(1, 1, "a"), (2, 2, "b"), (3, 3, "c"), (4, 4, "d"), (6, 9, "z")])
    before = bench.rows()
    outcome = bench.apply(bench.compare())
    assert bench.rows() == bench.rows("source") and outcome.proved
    assert bench.rollback(outcome.patch_id).proved and bench.rows() == before


def test_unique_values_are_exchanged_where_a_computed_column_follows_them(bench_of):
    """A row that is moved out of the way meanwhile has another computed value, which no guard may demand."""
    bench = bench_of()
    if bench.engine == "duckdb":
        pytest.skip("DuckDB stores no computed columns")
    bench.sql("CREATE TABLE t_source (id INTEGER PRIMARY KEY, pos INTEGER, made INTEGER)")
    bench.sql(
        "CREATE TABLE t_target (id INTEGER PRIMARY KEY, pos INTEGER UNIQUE,"
        " made INTEGER GENERATED ALWAYS AS (pos * 2) STORED)"
    )
    bench.fill("source", [(1, 2, 4), (2, 1, 2), (7, 9, 18)])
    bench.fill("target", [(1, 1), (2, 2), (6, 9)], "(id, pos)")
    before = bench.rows()
    outcome = bench.apply(bench.compare())
    assert bench.rows() == bench.rows("source") and outcome.proved
    assert bench.rollback(outcome.patch_id).proved and bench.rows() == before


@pytest.mark.parametrize(
    "refuses", ["CHECK (pos > 0)", "CHECK (pos > -5 AND pos < {most})", ""], ids=["sign", "range", "computed"]
)
def test_another_temporary_value_is_tried_where_one_is_refused(bench_of, refuses):
    """Rows that exchange values of a column without NULL hold others meanwhile, which no rule of the table foresaw."""
    bench = bench_of()
    if bench.engine == "duckdb" and not refuses:
        pytest.skip("DuckDB stores no computed columns")
    computed = "" if refuses else ", made INTEGER GENERATED ALWAYS AS (pos * 2 + 1) STORED"
    bench.members = {"columns": {"exclude": ["made"]}} if computed else {}
    refuses = refuses.format(most=10**16 if bench.engine == "sqlite" else 10**9)
    bench.sql("CREATE TABLE t_source (id INTEGER PRIMARY KEY, pos INTEGER)")
    bench.sql(f"CREATE TABLE t_target (id INTEGER PRIMARY KEY, pos INTEGER NOT NULL UNIQUE {refuses}{computed})")
    bench.fill("source", [(1, 2), (2, 1), (3, 4)])
    bench.fill("target", [(1, 1), (2, 2), (3, 3)], "(id, pos)")
    before = bench.rows(columns="id, pos")
    outcome = bench.apply(bench.compare())
    assert bench.rows(columns="id, pos") == bench.rows("source") and outcome.proved
    assert bench.rollback(outcome.patch_id).proved and bench.rows(columns="id, pos") == before


def test_rows_that_refer_to_each_other_are_written_in_order(bench_of):
    """Parents before children and children before parents, circles included, in both directions."""
    bench = bench_of()
    if bench.engine == "duckdb":
        pytest.skip("DuckDB checks foreign keys against the rows of before the transaction")
    bench.sql("CREATE TABLE t_source (id INTEGER PRIMARY KEY, parent INTEGER, v INTEGER)")
    bench.sql(
        "CREATE TABLE t_target (id INTEGER PRIMARY KEY, parent INTEGER, v INTEGER,"
        " CONSTRAINT t_parent FOREIGN KEY (parent) REFERENCES t_target (id))"
    )
    bench.fill("source", [(1, 3, 0), (2, 1, 0), (3, None, 0), (20, 21, 0), (21, 20, 0), (30, 1, 0), (40, 40, 0)])
    bench.fill("target", [(9, None, 0), (10, 9, 0), (30, 9, 0)])
    bench.fill("target", [(50, None, 0), (51, 50, 0)])
    bench.sql("UPDATE t_target SET parent = 51 WHERE id = 50")
    before = bench.rows()
    outcome = bench.apply(bench.compare())
    assert bench.rows() == bench.rows("source") and outcome.proved
    assert bench.rollback(outcome.patch_id).proved and bench.rows() == before


def test_a_foreign_key_to_another_table_fails_the_patch_as_a_whole(bench_of):
    """The refusal is clean and names the constraint where the engine names it."""
    bench = bench_of()
    bench.sql("CREATE TABLE cats (id INTEGER PRIMARY KEY)", "INSERT INTO cats VALUES (10)")
    bench.sql("CREATE TABLE t_source (id INTEGER PRIMARY KEY, cat INTEGER)")
    bench.sql(
        "CREATE TABLE t_target (id INTEGER PRIMARY KEY, cat INTEGER, CONSTRAINT to_cats FOREIGN KEY (cat)"
        " REFERENCES cats (id))"
    )
    bench.fill("source", [(1, None), (2, 20)])
    bench.fill("target", [(1, 10), (2, 10)])
    with pytest.raises(PatchWriteError, match=r"(?i)to_cats|foreign key"):
        bench.apply(bench.compare())
    assert bench.rows() == [(1, 10), (2, 10)]


def test_a_repeated_unique_value_fails_the_patch_as_a_whole(bench_of):
    """The source itself breaks the target's constraint: nothing is written, and no value is shown."""
    bench = bench_of()
    bench.sql("CREATE TABLE t_source (id INTEGER PRIMARY KEY, v VARCHAR(20))")
    bench.sql("CREATE TABLE t_target (id INTEGER PRIMARY KEY, v VARCHAR(20), UNIQUE (v))")
    bench.fill("source", [(1, "secret"), (2, "secret")])
    with pytest.raises(PatchWriteError) as refusal:
        bench.apply(bench.compare())
    assert "secret" not in str(refusal.value)
    assert bench.rows() == []


def test_a_unique_value_that_another_row_keeps_is_a_listed_conflict_under_skip(bench_of):
    """Somebody gave a value to a row of theirs: that row stays, who needs the value is listed, all others are written."""
    bench = bench_of()
    bench.tables("id INTEGER PRIMARY KEY, u INTEGER UNIQUE, v VARCHAR(20)")
    bench.fill("source", [(1, 10, "a"), (2, 20, "b"), (3, 30, "c"), (4, 11, "d"), (5, 50, "e")])
    bench.fill("target", [(1, 11, "a"), (2, 20, "x"), (5, 51, "e")])
    manifest = bench.compare()
    bench.fill("target", [(9, 10, "foreign")])
    outcome = bench.apply(manifest, conflicts="skip")
    assert bench.rows() == [(1, 11, "a"), (2, 20, "b"), (3, 30, "c"), (5, 50, "e"), (9, 10, "foreign")]
    assert [(row["key"], row["reason"]) for row in outcome.conflicts] == [
        (["1"], "DELTA_PATCH_CONFLICT"),
        (["4"], "DELTA_PATCH_CONFLICT"),
    ]
    assert outcome.outcomes == {"already": 0, "applied": 3, "conflict": 2, "skipped": 0}
    bench.rollback(outcome.patch_id)
    assert bench.rows() == [(1, 11, "a"), (2, 20, "x"), (5, 51, "e"), (9, 10, "foreign")]


def test_a_unique_value_that_two_rows_of_the_source_have_goes_to_the_first_under_skip(bench_of):
    """The target cannot hold both: one is written, the other is listed, and a key of several columns is judged whole."""
    bench = bench_of(columns={"exclude": ["b"]})
    bench.sql("CREATE TABLE t_source (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER)")
    bench.sql("CREATE TABLE t_target (id INTEGER PRIMARY KEY, a INTEGER, b INTEGER, UNIQUE (a, b))")
    bench.fill("source", [(1, 7, 0), (2, 7, 0), (3, 7, 0), (4, None, 0)])
    bench.fill("target", [(1, 1, 5), (2, 2, 5), (3, 3, 6), (4, 4, 5)])
    outcome = bench.apply(bench.compare(), conflicts="skip")
    assert outcome.outcomes == {"already": 0, "applied": 3, "conflict": 1, "skipped": 0}
    (conflict,) = outcome.conflicts
    assert bench.rows()[2:] == [(3, 7, 6), (4, None, 5)]
    assert sorted(row[1] for row in bench.rows()[:2]) == [int(conflict["key"][0]), 7]


@pytest.mark.parametrize("initially", ["IMMEDIATE", "DEFERRED"])
@pytest.mark.parametrize("constraint", ["UNIQUE (u)", "EXCLUDE USING btree (u WITH =)"], ids=["unique", "exclusion"])
def test_deferrable_constraints_are_judged_row_by_row_under_skip(postgresql_database, constraint, initially):
    """Rows that exchange values are written, the one that needs a foreign row's value is left, and is listed."""
    bench = Bench("postgresql", postgresql_database)
    bench.sql("CREATE TABLE t_source (id INTEGER PRIMARY KEY, u INTEGER, v VARCHAR(9))")
    bench.sql(
        "CREATE TABLE t_target (id INTEGER PRIMARY KEY, u INTEGER, v VARCHAR(9),"
        f" CONSTRAINT one_u {constraint} DEFERRABLE INITIALLY {initially})"
    )
    bench.fill("source", [(1, 2, "a"), (2, 1, "b"), (3, 3, "c"), (4, 40, "d"), (5, 50, "e")])
    bench.fill("target", [(1, 1, "a"), (2, 2, "b"), (3, 3, "x"), (4, 41, "d")])
    manifest = bench.compare()
    bench.fill("target", [(9, 40, "theirs"), (10, 50, "theirs")])
    before = bench.rows()
    with pytest.raises(PatchWriteError, match="one_u"):
        bench.apply(manifest)
    assert bench.rows() == before
    outcome = bench.apply(manifest, conflicts="skip")
    assert [(row["key"], row["reason"]) for row in outcome.conflicts] == [
        (["4"], "DELTA_PATCH_CONFLICT"),
        (["5"], "DELTA_PATCH_CONFLICT"),
    ]
    assert bench.rows() == [(1, 2, "a"), (2, 1, "b"), (3, 3, "c"), (4, 41, "d"), (9, 40, "theirs"), (10, 50, "theirs")]
    assert bench.rollback(outcome.patch_id, conflicts="skip").outcomes["applied"] == 3
    assert bench.rows() == before


def test_batches_commit_one_by_one_and_a_stopped_patch_goes_on(bench_of, tmp_path):
    """Under skip a large table is not locked as a whole; the ledger is that of a patch that nobody stopped."""
    bench = bench_of()
    bench.tables("id INTEGER PRIMARY KEY, v VARCHAR(20)")
    bench.fill("source", [(number, f"s{number}") for number in range(1, 8)])
    bench.fill("target", [(number, f"t{number}") for number in range(2, 9)])
    manifest = bench.compare()
    steps: list[str] = []

    def stop_in_the_third(step: str) -> None:
        steps.append(step)
        if steps.count("pause") == 2:
            bench.sql("UPDATE t_target SET v = 'foreign' WHERE id = 8")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.apply(manifest, conflicts="skip", batch_rows=3, step=stop_in_the_third)
    assert bench.rows() == [(1, "s1"), (2, "s2"), (3, "s3"), (4, "s4"), (5, "s5"), (6, "s6"), (7, "t7"), (8, "foreign")]
    outcome = bench.apply(manifest, conflicts="skip", batch_rows=3)
    assert outcome.outcomes == {"already": 0, "applied": 7, "conflict": 1, "skipped": 0}
    assert [row["key"] for row in outcome.conflicts] == [["8"]]
    assert bench.rows()[-2:] == [(7, "s7"), (8, "foreign")]
    back = bench.rollback(outcome.patch_id, conflicts="skip", batch_rows=3)
    assert back.outcomes["applied"] == 7
    assert bench.rows() == [*((number, f"t{number}") for number in range(2, 8)), (8, "foreign")]


def test_rows_that_refer_to_each_other_are_one_batch_however_they_are_checked(bench_of):
    """A parent that a later batch inserts would be missing at the commit of an earlier one."""
    bench = bench_of()
    if bench.engine == "duckdb":
        pytest.skip("DuckDB checks foreign keys against the rows of before the transaction")
    later = " DEFERRABLE INITIALLY DEFERRED" if bench.engine in ("sqlite", "postgresql") else ""
    bench.sql("CREATE TABLE t_source (id INTEGER PRIMARY KEY, parent INTEGER)")
    bench.sql(
        "CREATE TABLE t_target (id INTEGER PRIMARY KEY, parent INTEGER,"
        f" CONSTRAINT t_parent FOREIGN KEY (parent) REFERENCES t_target (id){later})"
    )
    bench.fill("source", [(1, 3), (2, 1), (3, None)])
    bench.fill("target", [(8, None), (9, 8)])
    before = bench.rows()
    outcome = bench.apply(bench.compare(), conflicts="skip", batch_rows=1)
    assert bench.rows() == [(1, 3), (2, 1), (3, None)] and outcome.proved
    assert bench.rollback(outcome.patch_id, conflicts="skip", batch_rows=1).proved and bench.rows() == before


def test_batches_go_with_skip_only():
    """A patch that must be refused as a whole cannot have been committed in part."""
    with pytest.raises(InputPolicyError, match="go with conflicts skip only"):
        PatchOptions(batch_rows=10)
    with pytest.raises(InputPolicyError, match="a batch has at least 1 row"):
        PatchOptions(conflicts="skip", batch_rows=0)


def test_values_that_a_column_cannot_hold_are_left_and_named(bench_of):
    """Nothing is rounded or cut: the row keeps what it has, and the ledger says why."""
    bench = bench_of()
    small = {"sqlite": "INTEGER", "duckdb": "SMALLINT", "postgresql": "SMALLINT", "mysql": "SMALLINT"}[bench.engine]
    if bench.engine == "sqlite":
        pytest.skip("SQLite's columns hold any value")
    bench.sql(
        "CREATE TABLE t_source (id INTEGER PRIMARY KEY, n BIGINT, d DECIMAL(10,4), s VARCHAR(20), f DOUBLE PRECISION)"
    )
    bench.sql(
        f"CREATE TABLE t_target (id INTEGER PRIMARY KEY, n {small}, d DECIMAL(10,2), s VARCHAR(3) NOT NULL, f REAL)"
    )
    bench.fill("source", [(1, 70000, "1.5", "abc", 0.5), (2, 1, "1.2345", "abc", 0.5), (3, 1, "2", "abcd", 0.5),
                          (4, 1, "2", None, 0.5), (5, 1, "2", "abc", 0.25), (6, 70000, "2", "abc", 1.0)])  # fmt: skip
    if bench.engine == "mysql":
        bench.sql("ALTER TABLE t_target MODIFY f FLOAT")
    bench.fill("target", [(1, 1, "1.5", "abc", 0.5), (2, 1, "1.2", "abc", 0.5), (3, 1, "2", "abc", 0.5),
                          (4, 1, "2", "abc", 0.5), (5, 1, "2", "abc", 0.5)])  # fmt: skip
    before = bench.rows()
    outcome = bench.apply(bench.compare())
    lossy = {row["key"][0] for row in outcome.skipped if row["reason"] == "DELTA_VALUE_LOSSY"}
    assert lossy >= {"1", "2", "4", "6"}
    assert dict(outcome.outcomes)["applied"] == 6 - len(lossy)
    assert [row for row in bench.rows() if row[0] in (1, 2, 4)] == [row for row in before if row[0] in (1, 2, 4)]
    assert bench.rows()[4][4] == 0.25


TEXTS = [
    "back\\slash",
    "per%cent %s",
    "quote ' \" `",
    "new\nline\ttab",
    "Zoë e\u0308 😀",
    "",
    " blanks  ",
    "NULL",
    "null",
]


def test_texts_and_bytes_arrive_exactly_under_any_collation(bench_of):
    """Backslashes, percent signs, quotes, blanks at the end, case alone, bytes of every value."""
    bench = bench_of()
    text = {"mysql": "VARCHAR(60) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"}.get(bench.engine, "VARCHAR(60)")
    binary = {"postgresql": "BYTEA", "mysql": "LONGBLOB"}.get(bench.engine, "BLOB")
    bench.tables(f"id INTEGER PRIMARY KEY, v {text}, b {binary}")
    data = bytes(range(256))
    bench.fill("source", [(at, value, data) for at, value in enumerate(TEXTS)])
    bench.fill("source", [(100, "Case", b""), (101, "pad ", None)])
    bench.fill("target", [(at, "x", b"\x00") for at in range(0, len(TEXTS), 2)])
    bench.fill("target", [(100, "case", None), (101, "pad", b"")])
    before = bench.rows()
    outcome = bench.apply(bench.compare())
    assert outcome.proved
    assert [(row[1], None if row[2] is None else bytes(row[2])) for row in bench.rows()] == [
        *((value, data) for value in TEXTS),
        ("Case", b""),
        ("pad ", None),
    ]
    assert bench.rollback(outcome.patch_id).proved and bench.rows() == before


def test_text_keys_that_differ_by_case_or_blanks_are_different_rows(bench_of):
    """A row is found by its exact key, whatever the engine's collation says."""
    bench = bench_of(key=["k"])
    text = {"mysql": "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
            "sqlite": "TEXT COLLATE NOCASE"}.get(bench.engine, "VARCHAR(20)")  # fmt: skip
    bench.tables(f"k {text}, v INTEGER")
    bench.fill("source", [("a", 1), ("A", 2), ("b ", 3)])
    bench.fill("target", [("a", 1), ("A", 9), ("b", 8), ("c'\\%", 7)])
    before = sorted(bench.rows())
    outcome = bench.apply(bench.compare())
    assert sorted(bench.rows()) == [("A", 2), ("a", 1), ("b ", 3)]
    bench.rollback(outcome.patch_id)
    assert sorted(bench.rows()) == before


def test_a_key_may_have_a_null_where_nulls_match(bench_of):
    """Every statement has the whole key, IS NULL where it is NULL."""
    bench = bench_of(key=["a", "b"], keys={"nulls": "match"})
    bench.tables("a INTEGER, b INTEGER, v INTEGER")
    bench.fill("source", [(1, None, 1), (1, 2, 2), (None, None, 3)])
    bench.fill("target", [(1, None, 9), (1, 2, 2), (None, 1, 4)])
    outcome = bench.apply(bench.compare())
    assert outcome.proved
    assert sorted(bench.rows(), key=repr) == sorted([(1, None, 1), (1, 2, 2), (None, None, 3)], key=repr)


def test_more_than_a_tenth_of_the_rows_is_no_repair(bench_of):
    """A share that says that the sides are too different stops the patch; a small table may be repaired as a whole."""
    bench = bench_of()
    bench.tables("id INTEGER PRIMARY KEY, v INTEGER")
    with bench.connection() as run:
        for side in ("source", "target"):
            run(f"INSERT INTO t_{side} VALUES " + ", ".join(f"({at}, {at if side == 'source' or at > 200 else -1})"
                                                            for at in range(1, 1001)))  # fmt: skip
    manifest = bench.compare()
    with pytest.raises(PatchShareError, match="200 of 1000"):
        bench.apply(manifest)
    assert bench.apply(manifest, max_share=Fraction(1, 5)).proved


def test_deletes_by_a_part_of_the_rows_must_be_said(bench_of):
    """Under a filter a row may be missing from the comparison only."""
    bench = bench_of(filter="v < 100")
    bench.tables("id INTEGER PRIMARY KEY, v INTEGER")
    bench.fill("source", [(1, 1), (3, 500)])
    bench.fill("target", [(1, 2), (2, 2), (3, 3)])
    manifest = bench.compare()
    with pytest.raises(PatchManifestError, match="partial-deletes"):
        bench.apply(manifest)
    outcome = bench.apply(manifest, partial_deletes=True)
    assert bench.rows() == [(1, 1)] and outcome.proved


def test_a_row_outside_the_filter_is_never_overwritten(bench_of):
    """The comparison did not see it, so it is a conflict, not a place to insert."""
    bench = bench_of(filter="v < 100")
    bench.tables("id INTEGER PRIMARY KEY, v INTEGER")
    bench.fill("source", [(1, 1)])
    bench.fill("target", [(1, 500)])
    outcome = bench.apply(bench.compare())
    assert not outcome.applied and bench.rows() == [(1, 500)]


@pytest.mark.parametrize("detail", ["digests", "values"])
def test_values_recorded_as_digests_are_read_again_and_must_match(bench_of, detail):
    """The checkpoint of a sensitive column is stored encrypted; the values come from the source, if it is unchanged."""
    bench = bench_of(detail=detail, sensitive=["v"], columns={"exclude": ["note"]})
    manifest = filled(bench)
    plan = bench.plan(manifest)
    assert "s1" not in json.dumps(plan.document()) and "***" in json.dumps(plan.document())
    outcome = bench.apply(manifest)
    assert bench.rows() == AFTER and outcome.proved
    stored = b"".join(blobs.get_blob(bench.store, path.rsplit("/", 1)[1]) for path in blob_paths(bench))
    assert b"t1" not in stored and b"n4" not in stored
    assert bench.rollback(outcome.patch_id).proved and bench.rows() == BEFORE
    assert verify_published(bench.store, manifest)[0].findings == []


def test_a_source_that_changed_under_digests_refuses_the_patch(bench_of):
    """A value that cannot be checked against what was compared is never written."""
    bench = bench_of(detail="digests", **EXCLUDED)
    manifest = filled(bench)
    bench.sql("UPDATE t_source SET v = 'new' WHERE id = 1")
    with pytest.raises(PatchManifestError, match="key 1"):
        bench.apply(manifest)
    assert bench.rows() == BEFORE


@pytest.mark.parametrize("detail", ["keys", "counts"])
def test_a_manifest_without_values_is_refused(bench_of, detail):
    """What stood there at the comparison could not be checked."""
    bench = bench_of(detail=detail, **EXCLUDED)
    with pytest.raises(PatchManifestError, match=detail):
        bench.apply(filled(bench))


def test_long_values_are_read_again(bench_of):
    """Beyond inline_limit a record holds a digest; checkpoint and rollback hold the whole value."""
    bench = bench_of(inline_limit=64)
    text = {"mysql": "LONGTEXT"}.get(bench.engine, "TEXT")
    bench.tables(f"id INTEGER PRIMARY KEY, v {text}")
    bench.fill("source", [(1, "s" * 5000), (2, "n" * 3000)])
    bench.fill("target", [(1, "t" * 4000), (3, "d" * 100)])
    before = bench.rows()
    outcome = bench.apply(bench.compare())
    assert bench.rows() == bench.rows("source") and outcome.proved
    assert bench.rollback(outcome.patch_id).proved and bench.rows() == before


def test_a_patch_of_other_sides_or_columns_is_refused(bench_of):
    """A specification that speaks of something else cannot carry out what was approved."""
    bench = bench_of(**EXCLUDED)
    manifest = filled(bench)
    bench.members = {}
    with pytest.raises(PatchManifestError, match="contract"):
        bench.apply(manifest)
    bench.members = {**EXCLUDED, "name": "other"}
    with pytest.raises(PatchManifestError, match="other"):
        bench.apply(manifest)
    assert bench.rows() == BEFORE


def test_a_query_is_no_side_to_write_to(bench_of):
    """Only a table is patched."""
    bench = bench_of()
    bench.tables("id INTEGER PRIMARY KEY, v INTEGER")
    bench.fill("source", [(1, 1)])
    bench.members = {"target": {"uri": bench.uri, "query": "SELECT * FROM t_target", "label": "q"}}
    with pytest.raises(PatchSideError):
        bench.apply(bench.compare())


def test_a_view_is_no_side_to_write_to(bench_of):
    """What a write to a view does, no checkpoint can tell."""
    bench = bench_of()
    bench.sql("CREATE TABLE t_source (id INTEGER PRIMARY KEY, v INTEGER)", "INSERT INTO t_source VALUES (1, 1)")
    bench.sql("CREATE TABLE base (id INTEGER PRIMARY KEY, v INTEGER)", "CREATE VIEW t_target AS SELECT * FROM base")
    with pytest.raises(PatchSideError, match="no table"):
        bench.apply(bench.compare())


def test_a_rollback_needs_a_finished_patch(bench_of):
    """Without checkpoint or ledger there is nothing that could be taken back."""
    bench = bench_of(**EXCLUDED)
    manifest = filled(bench)
    with pytest.raises(CheckpointRequiredError):
        bench.rollback(PatchRule().patch_id(manifest))

    def stop(step: str) -> None:
        if step == "ledger":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.apply(manifest, step=stop)
    with pytest.raises(LedgerMismatchError, match="finish"):
        bench.rollback(PatchRule().patch_id(manifest))
    assert bench.apply(manifest).proved
    patch = bench.rollback(PatchRule().patch_id(manifest))
    with pytest.raises(CheckpointMismatchError, match="rollback itself"):
        bench.rollback(patch.patch_id)


def test_key_rules_find_the_row_by_the_key_that_the_side_holds(bench_of):
    """A key that is equal only after a rule is updated where it stands, and deleted and restored under its own spelling."""
    bench = bench_of(key=["k"], rules={"k": [{"normalize": ["casefold"]}]})
    bench.tables("k VARCHAR(20), v INTEGER")
    bench.fill("source", [("Ada", 1), ("Bob", 2)])
    bench.fill("target", [("ADA", 9), ("Carl", 3)])
    before = bench.rows()
    outcome = bench.apply(bench.compare())
    assert bench.rows(order="2") == [("ADA", 1), ("bob", 2)] and outcome.proved
    assert bench.rollback(outcome.patch_id).proved and bench.rows() == before


def test_columns_that_are_read_through_a_rule_are_written_so_that_they_read_right(bench_of):
    """The target stores texts; what is written reads as the source's value, and the rollback restores the very text."""
    rules = {"flag": [{"read_as": {"type": "bool", "side": "target", "true_values": ["yes"], "false_values": ["no", "NO"]}}],
             "n": [{"read_as": {"type": "int", "side": "target"}}]}  # fmt: skip
    bench = bench_of(rules=rules)
    boolean = {"mysql": "TINYINT(1)"}.get(bench.engine, "BOOLEAN")
    if bench.engine in ("mysql", "sqlite"):
        rules["flag"].insert(0, {"read_as": {"type": "bool", "side": "source"}})
    if bench.engine == "sqlite":
        boolean = "INTEGER"
    bench.sql(f"CREATE TABLE t_source (id INTEGER PRIMARY KEY, flag {boolean}, n INTEGER)")
    bench.sql("CREATE TABLE t_target (id INTEGER PRIMARY KEY, flag VARCHAR(9), n VARCHAR(9))")
    bench.fill("source", [(1, 1 if boolean != "BOOLEAN" else True, 5), (2, 0 if boolean != "BOOLEAN" else False, 7)])
    bench.fill("target", [(1, "NO", "5"), (3, "yes", "0012")])
    before = bench.rows()
    outcome = bench.apply(bench.compare())
    assert bench.rows() == [(1, "yes", "5"), (2, "no", "7")] and outcome.proved
    assert bench.rollback(outcome.patch_id).proved and bench.rows() == before


def at(name: str, act: Callable[[], object], bench: Bench) -> Callable[[str], None]:
    """Return a step function that acts once, before the first step of this name; DuckDB has one writing process only."""
    if bench.engine == "duckdb":
        pytest.skip("DuckDB's file has one writer")
    left = [name]

    def step(current: str) -> None:
        if left and current == left[0]:
            left.clear()
            act()

    return step


def pair_of(bench: Bench) -> str:
    """Return the id of the bench's pair."""
    return log.pair_id_of(bench.spec.name, "bench:source", "bench:target")


def blob_paths(bench: Bench) -> list[str]:
    """Return the paths of all blobs of the store."""
    return list(bench.store.list("blobs"))


def test_the_body_of_a_ledger_is_the_same_for_every_try():
    """Nothing in a ledger tells when, where or how often it was written."""
    line = jsonc.dumps({"id": "0" * 64, "op": "none", "outcome": "already", "reason": None, "sort_key": "00"})
    assert line == jsonc.dumps(jsonc.loads(line))


def test_triggers_and_cascades_stop_a_patch_unless_allowed_by_name(bench_of):
    """They would write more than the patch says; a cascade on delete does not stop an update."""
    bench = bench_of(**EXCLUDED)
    if bench.engine == "duckdb":
        pytest.skip("DuckDB has neither")
    key = "id INTEGER NOT NULL PRIMARY KEY, v VARCHAR(40), note VARCHAR(40)"
    manifest = filled(bench, key)
    bench.sql("CREATE TABLE child (id INTEGER PRIMARY KEY, parent INTEGER, CONSTRAINT to_parent FOREIGN KEY (parent)"
              " REFERENCES t_target (id) ON DELETE CASCADE)")  # fmt: skip
    bench.sql("INSERT INTO child VALUES (10, 1), (11, 4)")
    name = "child.parent" if bench.engine == "sqlite" else "to_parent"
    with pytest.raises(PatchUnsafeError, match=name):
        bench.apply(manifest)
    assert bench.rows() == BEFORE
    if bench.engine == "postgresql":
        bench.sql("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$")
        bench.sql("CREATE TRIGGER watch BEFORE UPDATE ON t_target FOR EACH ROW EXECUTE FUNCTION f()")
    else:
        body = "BEGIN SELECT 1; END" if bench.engine == "sqlite" else "SET @x = 1"
        row = "" if bench.engine == "sqlite" else "FOR EACH ROW "
        bench.sql(f"CREATE TRIGGER watch AFTER UPDATE ON t_target {row}{body}")
    with pytest.raises(PatchUnsafeError, match="watch"):
        bench.apply(manifest, allow=frozenset((name,)))
    outcome = bench.apply(manifest, allow=frozenset((name, "watch")))
    assert bench.rows() == AFTER and outcome.proved
    assert bench.sql("SELECT id FROM child ORDER BY 1") == [(10,)]
