"""Procedures of the handed cases about patches that ask for more than to apply and to take back."""

from __future__ import annotations

from pathlib import Path

import patching


def test_rc_247_the_children_of_an_updated_row_stay(mariadb_database):
    """A diverged row is updated in place: deleted and inserted again, it would take its children with it."""
    bench = patching.Bench("mysql", mariadb_database, columns={"exclude": ["note"]})
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


def test_rc_254_a_rollback_over_somebodys_work_is_refused(postgresql_database):
    """As a whole and by the rows' keys; a change of a column that was left out is no such work, and is kept."""
    bench = patching.Bench("postgresql", postgresql_database, columns={"exclude": ["note"]})
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


def test_rc_256_a_row_that_was_deleted_meanwhile_is_not_created(tmp_path):
    """By default nothing is written then; asked to leave conflicts, the other row is, and a rollback leaves it alone."""
    bench = patching.Bench("sqlite", patching.file_uri("sqlite", Path(tmp_path)))
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


def test_rc_258_an_identity_takes_the_key_of_the_source(postgresql_database):
    """Under a fresh number it would be another row. The sequence is left alone: the next row begins where it stood."""
    bench = patching.Bench("postgresql", postgresql_database)
    bench.sql("CREATE TABLE t_source (id integer PRIMARY KEY, v text)",
              "CREATE TABLE t_target (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text)")  # fmt: skip
    bench.fill("source", [(7, "x")])
    bench.apply(bench.compare())
    assert bench.rows() == [(7, "x")]
    bench.sql("INSERT INTO t_target (v) VALUES ('own')")
    assert bench.rows() == [(1, "own"), (7, "x")]
