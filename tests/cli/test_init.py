"""``init``: a specification that runs, from two addresses, without a secret in it."""

import sqlite3

import pytest
from cli_store import fill

from airflow_delta_provider.cli.init import quoted, without_secrets
from airflow_delta_provider.core.spec import parse_yaml


@pytest.fixture
def databases(tmp_path):
    fill(tmp_path / "s.db", [(1, "a", 2)])
    fill(tmp_path / "t.db", [(1, "b", 2)])
    return f"sqlite:///{tmp_path}/s.db", f"sqlite:///{tmp_path}/t.db"


def test_what_init_writes_runs(delta, databases, tmp_path):
    """From two addresses to a manifest in two commands."""
    spec = tmp_path / "spec.yaml"
    answer = delta("init", *databases, "--source-table", "t", "--target-table", "t", "--name", "first", "-o", spec)
    assert answer.code == 0
    text = spec.read_text()
    assert 'key: ["id"]  # the primary key of both sides' in text
    assert "#   no<te: text -> text" in text
    assert delta("check", spec).code == 0
    run = delta("run", spec, "--store", tmp_path / "store", "--json")
    assert (run.code, run.json["categories"]["value_diverged"]) == (1, 1)


def test_a_file_that_is_there_is_not_replaced(delta, databases, tmp_path):
    """A specification that somebody has edited stays."""
    spec = tmp_path / "spec.yaml"
    spec.write_text("mine")
    answer = delta("init", *databases, "--source-table", "t", "--target-table", "t", "-o", spec)
    assert answer.code == 3
    assert spec.read_text() == "mine"


def test_text_files_need_a_key_and_are_told_how_to_type(delta, tmp_path):
    """No side declares anything: the columns are listed, and the key is asked for."""
    for name in ("s", "t"):
        (tmp_path / f"{name}.csv").write_text("id,amount\n1,2.50\n")
    paths = (tmp_path / "s.csv", tmp_path / "t.csv")
    answer = delta("init", *paths)
    assert (answer.code, answer.out) == (2, "")
    assert "[DELTA_SPEC_KEY]" in answer.err
    assert "id, amount" in answer.err
    out = delta("init", *paths, "--key", "id").out
    assert "#   types:" in out
    assert '#     "amount": text' in out
    assert "[DELTA_SPEC_COLUMN]" in delta("init", *paths, "--key", "nope").err


def test_columns_that_cannot_meet_are_left_out_and_said(delta, tmp_path):
    """A number and bytes have no common type: the specification still runs, and says what it leaves out."""
    fill(tmp_path / "s.db", [(1, "a", 2)])
    connection = sqlite3.connect(tmp_path / "t.db")
    connection.execute('create table t (id integer primary key, "no<te" text, amount blob, extra text)')
    connection.commit()
    uris = (f"sqlite:///{tmp_path}/s.db", f"sqlite:///{tmp_path}/t.db")
    out = delta("init", *uris, "--source-table", "t", "--target-table", "t").out
    assert "amount: int(64) -> bytes  CANNOT BE COMPARED" in out
    assert 'exclude: ["amount"]' in out
    assert "extra: text, in the target only: not compared" in out


@pytest.mark.parametrize(
    ("uri", "written", "names"),
    [
        ("postgresql://u:s3cret@h/db", "postgresql://u:${X_PASSWORD}@h/db", ("X_PASSWORD",)),
        ("postgresql://u:p@ss@h/db", "postgresql://u:${X_PASSWORD}@h/db", ("X_PASSWORD",)),
        (
            "postgresql://h/db?user=u&password=s3cret",
            "postgresql://h/db?user=u&password=${X_PASSWORD}",
            ("X_PASSWORD",),
        ),
        ("postgresql://u:${PW}@h/db", "postgresql://u:${PW}@h/db", ()),
        ("postgresql://u@h/db", "postgresql://u@h/db", ()),
        ("sqlite:///f.db", "sqlite:///f.db", ()),
        (
            "mysql://u:a@h/db?sslpassword=b",
            "mysql://u:${X_PASSWORD}@h/db?sslpassword=${X_PASSWORD_2}",
            ("X_PASSWORD", "X_PASSWORD_2"),
        ),
    ],
)
def test_passwords_become_references(uri, written, names):
    """A specification is committed; what opens a database is not."""
    assert without_secrets(uri, "X") == (written, names)


@pytest.mark.parametrize("text", ['a"b\\c', "line\nbreak", "\u2028\u0085\x00", "😀 naïve", "${X} # no: comment"])
def test_any_name_survives_the_yaml(text):
    """Names are data: they break no line and no quote."""
    assert parse_yaml(f"name: {quoted(text)}\n".encode(), "x") == {"name": text}


def test_tables_belong_to_databases(delta, databases, tmp_path):
    """A database without a table, and files with one, are refused by name."""
    answer = delta("init", *databases)
    assert (answer.code, "--source-table is missing" in answer.err) == (2, True)
    (tmp_path / "s.csv").write_text("id\n1\n")
    path = tmp_path / "s.csv"
    assert "[DELTA_SPEC_FIELD]" in delta("init", path, path, "--source-table", "t").err


def test_a_file_that_is_not_there_is_refused(delta, tmp_path):
    """Nothing is written."""
    answer = delta("init", tmp_path / "a.csv", tmp_path / "b.csv", "--key", "id")
    assert answer.code in (2, 3)
    assert answer.out == ""
