"""Procedures of the handed cases about patches that ask for more than to apply and to take back."""

from __future__ import annotations

from typing import Any

import patching
import pytest
from cases.standins import PATCHED_ENGINES

from airflow_delta_provider.core.errors import PatchWriteError


@pytest.fixture(params=PATCHED_ENGINES)
def bench(request, tmp_path) -> patching.Bench:
    """An empty database of each engine that the cases about patches run on."""
    if request.param == "sqlite":
        return patching.Bench("sqlite", patching.file_uri("sqlite", tmp_path))
    name = "postgresql_database" if request.param == "postgresql" else "mariadb_database"
    return patching.Bench(request.param, request.getfixturevalue(name))


LEFT_OUT: dict[str, Any] = {"columns": {"exclude": ["note"]}}


def test_rc_247_the_children_of_an_updated_row_stay(bench):
    """A diverged row is updated in place: deleted and inserted again, it would take its children with it."""
    bench.members = LEFT_OUT
    bench.tables("id integer PRIMARY KEY, name varchar(20), note varchar(20)")
    bench.fill("source", [(1, "new", "s"), (2, "b", "s")])
    bench.fill("target", [(1, "old", "kept"), (2, "b", "kept")])
    bench.sql("CREATE TABLE c (id integer PRIMARY KEY, parent_id integer,"
              " FOREIGN KEY (parent_id) REFERENCES t_target (id) ON DELETE CASCADE)",
              "INSERT INTO c VALUES (10, 1), (11, 1), (12, 2)")  # fmt: skip
    outcome = bench.apply(bench.compare())
    assert bench.rows() == [(1, "new", "kept"), (2, "b", "kept")]
    assert bench.sql("SELECT * FROM c ORDER BY 1") == [(10, 1), (11, 1), (12, 2)]
    bench.rollback(outcome.patch_id)
    assert bench.rows() == [(1, "old", "kept"), (2, "b", "kept")]
    assert bench.sql("SELECT * FROM c ORDER BY 1") == [(10, 1), (11, 1), (12, 2)]


def test_rc_254_a_rollback_over_somebodys_work_is_refused(bench):
    """As a whole and by the rows' keys; a change of a column that was left out is no such work, and is kept."""
    bench.members = LEFT_OUT
    bench.tables("id integer PRIMARY KEY, v text, note text")
    bench.fill("source", [(1, "s1", "n"), (2, "s2", "n"), (3, "s3", "n")])
    bench.fill("target", [(1, "t1", "n"), (2, "t2", "n"), (4, "t4", "n")])
    patch = bench.apply(bench.compare()).patch_id
    for work, undone, key in [
        ("UPDATE t_target SET v = 'human' WHERE id = 2", "UPDATE t_target SET v = 's2' WHERE id = 2", "2"),
        ("DELETE FROM t_target WHERE id = 3", "INSERT INTO t_target VALUES (3, 's3', NULL)", "3"),
        ("INSERT INTO t_target VALUES (4, 'again', NULL)", "DELETE FROM t_target WHERE id = 4", "4"),
    ]:
        bench.sql(work)
        before = bench.rows()
        outcome = bench.rollback(patch)
        assert (outcome.applied, [row["key"] for row in outcome.conflicts]) == (False, [[key]])
        assert bench.rows() == before
        bench.sql(undone)
    bench.sql("UPDATE t_target SET note = 'human' WHERE id = 1")
    assert bench.rollback(patch).applied
    assert bench.rows() == [(1, "t1", "human"), (2, "t2", "n"), (4, "t4", "n")]


def test_rc_256_a_row_that_was_deleted_meanwhile_is_not_created(bench):
    """By default nothing is written then; asked to leave conflicts, the other row is, and a rollback leaves it alone."""
    bench.tables("id integer PRIMARY KEY, v text")
    bench.fill("source", [(1, "s"), (2, "s")])
    bench.fill("target", [(1, "t"), (2, "t")])
    manifest = bench.compare()
    bench.sql("DELETE FROM t_target WHERE id = 2")
    outcome = bench.apply(manifest)
    assert (outcome.applied, [row["key"] for row in outcome.conflicts]) == (False, [["2"]])
    assert bench.rows() == [(1, "t")]
    outcome = bench.apply(manifest, conflicts="skip")
    assert [row["key"] for row in outcome.conflicts] == [["2"]]
    assert bench.rows() == [(1, "s")]
    bench.rollback(outcome.patch_id)
    assert bench.rows() == [(1, "t")]


def test_rc_258_an_identity_takes_the_key_of_the_source(bench):
    """Under a fresh number it would be another row.

    A sequence of PostgreSQL is left alone, so that the next row begins where it stood; the other engines number on from
    the greatest key.
    """
    numbered = {
        "postgresql": "integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
        "mysql": "integer AUTO_INCREMENT PRIMARY KEY",
        "sqlite": "integer PRIMARY KEY AUTOINCREMENT",
    }[bench.engine]
    bench.sql(
        "CREATE TABLE t_source (id integer PRIMARY KEY, v text)", f"CREATE TABLE t_target (id {numbered}, v text)"
    )
    bench.fill("source", [(7, "x")])
    patch = bench.apply(bench.compare()).patch_id
    assert bench.rows() == [(7, "x")]
    bench.sql("INSERT INTO t_target (v) VALUES ('own')")
    own = (1 if bench.engine == "postgresql" else 8, "own")
    assert bench.rows() == sorted([own, (7, "x")])
    assert bench.rollback(patch).applied
    assert bench.rows() == [own]


def test_rc_262_a_foreign_key_that_the_new_rows_break_leaves_the_target_as_it_was(bench):
    """The row that is missing lies in another table, which this patch does not write to; with it there, both ways work."""
    bench.sql("CREATE TABLE cats (id integer PRIMARY KEY)", "INSERT INTO cats VALUES (10)")
    bench.sql("CREATE TABLE t_source (id integer PRIMARY KEY, cat integer)")
    bench.sql("CREATE TABLE t_target (id integer PRIMARY KEY, cat integer,"
              " CONSTRAINT to_cats FOREIGN KEY (cat) REFERENCES cats (id))")  # fmt: skip
    bench.fill("source", [(1, None), (2, 20)])
    bench.fill("target", [(1, 10), (2, 10)])
    manifest = bench.compare()
    with pytest.raises(PatchWriteError, match=r"(?i)to_cats|foreign key"):
        bench.apply(manifest)
    assert bench.rows() == [(1, 10), (2, 10)]
    bench.sql("INSERT INTO cats VALUES (20)")
    outcome = bench.apply(manifest)
    assert bench.rows() == [(1, None), (2, 20)] and outcome.proved
    bench.sql("DELETE FROM cats WHERE id = 10")
    with pytest.raises(PatchWriteError, match=r"(?i)to_cats|foreign key"):
        bench.rollback(outcome.patch_id)
    assert bench.rows() == [(1, None), (2, 20)]
    bench.sql("INSERT INTO cats VALUES (10)")
    assert bench.rollback(outcome.patch_id).proved and bench.rows() == [(1, 10), (2, 10)]
