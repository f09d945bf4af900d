"""No value of a sensitive column leaves the sides: not into a store, a report, an export, a page, a log or an error."""

import logging
import sqlite3

import pytest

from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.core.spec import load_spec
from airflow_delta_provider.core.store import open_store
from airflow_delta_provider.core.store.slots import run_slot
from airflow_delta_provider.engine import steps
from airflow_delta_provider.engine.work import Work

MARKS = ("PLANTEDsourceMARK", "PLANTEDtargetMARK", "PLANTEDalikeMARK", "PLANTEDnewMARK", "PLANTEDgoneMARK")
OPEN = "shown-in-clear"
ENDINGS = ("jsonl", "json", "parquet", "csv", "html", "junit", "sql")


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """Two tables whose column ``email`` holds marks, beside a column that may be seen."""
    monkeypatch.setenv("DELTA_HMAC", "00" * 32)
    rows = {
        "source": [(1, MARKS[0], 1), (2, MARKS[2], 2), (3, MARKS[4], 3)],
        "target": [(1, MARKS[1], 9), (2, MARKS[2], 2), (4, MARKS[3], 4)],
    }
    for side, found in rows.items():
        connection = sqlite3.connect(tmp_path / f"{side}.db")
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, email TEXT, note TEXT)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", [(n, mail, f"{OPEN}-{x}") for n, mail, x in found])
        connection.commit()
        connection.close()
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "name: private\n"
        f"source: {{uri: 'sqlite:///{tmp_path}/source.db', table: t}}\n"
        f"target: {{uri: 'sqlite:///{tmp_path}/target.db', table: t}}\n"
        "sensitive: [email]\nhmac: {env: DELTA_HMAC}\n"
    )
    return spec


def marks_in(data: bytes) -> list[str]:
    return [mark for mark in MARKS if mark.encode() in data or mark.lower().encode() in data]


def everything_below(folder) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_no_command_shows_a_sensitive_value(delta, planted, tmp_path, caplog):
    """Run, show, log, prove, verify and every export; and what they say on stderr and to loggers."""
    caplog.set_level(logging.DEBUG)
    store = tmp_path / "store"
    answer = delta("run", planted, "--store", store, "--workers", "1", "--json")
    assert answer.code == 1
    digest = answer.json["manifest"]
    said = [answer.out, answer.err]
    record = delta("show", digest, "--store", store, "--json").json["records"][0]["id"]
    for words in (
        ("check", planted),
        ("check", planted, "--json"),
        ("show", digest, "--store", store),
        ("show", digest, "--store", store, "--json"),
        ("log", "private", "--store", store, "--json"),
        ("prove", digest, record, "--store", store),
        ("prove", digest, "--category", "added", "--store", store),
        ("verify", digest, "--store", store, "--json"),
        ("verify", "--audit", store),
    ):
        answer = delta(*words)
        assert answer.code in (0, 1), answer.err
        said += [answer.out, answer.err]
    for ending in ENDINGS:
        file = tmp_path / "exports" / f"out.{ending}"
        file.parent.mkdir(exist_ok=True)
        answer = delta("export", digest, "--store", store, "--to", ending, "-o", file)
        assert answer.code in (0, 1), answer.err
        said += [answer.out, answer.err]
    assert marks_in("".join([*said, caplog.text]).encode()) == []
    assert marks_in(everything_below(store)) == []
    assert marks_in(everything_below(tmp_path / "exports")) == []
    assert OPEN in "".join(said)  # the other column is told, so the marks would have been


def test_a_parquet_export_holds_no_sensitive_value(delta, planted, tmp_path):
    """Its pages are compressed, so it is read back."""
    import pyarrow.parquet

    store, file = tmp_path / "store", tmp_path / "out.parquet"
    digest = delta("run", planted, "--store", store, "--workers", "1", "--json").json["manifest"]
    assert delta("export", digest, "--store", store, "--to", "parquet", "-o", file).code in (0, 1)
    assert marks_in(repr(pyarrow.parquet.read_table(file).to_pylist()).encode()) == []


def test_no_artifact_of_an_unfinished_run_holds_a_sensitive_value(planted, tmp_path):
    """Raw comparisons lie below work/ until the merge, and for ever where a run is given up."""
    store = open_store(str(tmp_path / "store"))
    work = Work(store, run_slot("dag", "run", "merge", -1))
    for shard in steps.plan(load_spec(planted), work, open_side).shards:
        steps.build(shard, steps.compare(shard, work, open_side).digest, work)
    held = everything_below(tmp_path / "store")
    assert marks_in(held) == []
    assert OPEN.encode() in held


def test_an_error_about_a_sensitive_value_does_not_show_it(delta, planted, tmp_path):
    """The value that a rule cannot read stands in no message."""
    planted.write_text(planted.read_text() + "rules: {email: [{read_as: {type: int}}]}\n")
    answer = delta("run", planted, "--store", tmp_path / "store", "--workers", "1")
    assert answer.code in (2, 3)
    assert marks_in((answer.out + answer.err).encode()) == []


@pytest.mark.parametrize("detail", ["digests", "keys", "counts"])
def test_with_less_detail_no_value_at_all_is_stored(delta, planted, tmp_path, detail):
    """Neither the sensitive column nor the other one."""
    planted.write_text(planted.read_text() + f"detail: {detail}\n")
    answer = delta("run", planted, "--store", tmp_path / "store", "--workers", "1", "--json")
    assert answer.code == 1
    held = everything_below(tmp_path / "store")
    assert marks_in(held) == []
    assert OPEN.encode() not in held
