"""``run``, ``check``, ``show`` and ``log`` over real files: bad input ends with its code, and nothing is published."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import engine_tables
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS = [(number, "c", number / 4, f"t{number}", b"\x01") for number in range(30)]


@pytest.fixture
def folder(tmp_path):
    """A folder with one table in SQLite and Parquet, as source and target that differ in one row."""
    for engine in ("sqlite", "parquet"):
        engine_tables.write(engine, tmp_path, "source", ROWS)
        engine_tables.write(engine, tmp_path, "target", [*ROWS[:-1], (29, "c", 1.0, "t29", b"\x01")])
    return tmp_path


def specify(folder: Path, **members: Any) -> Path:
    """Write a specification; JSON is YAML."""
    form = {
        "name": "pair",
        "source": {"uri": f"sqlite:///{folder}/source.db", "table": "t"},
        "target": {"path": f"{folder}/target.parquet"},
        "key": ["id"],
        **members,
    }
    path = folder / "spec.yaml"
    path.write_text(json.dumps({name: value for name, value in form.items() if value is not None}))
    return path


def published(folder: Path) -> list[str]:
    return [str(path) for path in (folder / "store").rglob("log/*")]


def test_the_exit_code_says_whether_there_are_discrepancies(delta, folder):
    """0 and 1 are verdicts; everything else is none."""
    answer = delta("run", specify(folder), "--store", folder / "store", "--json")
    assert (answer.code, answer.json["categories"]) == (1, {"added": 0, "dropped": 0, "value_diverged": 1})
    assert answer.json["population"]["source"]["rows"] == 30
    assert answer.json["summary"]["columns"] == [["code", 0, 0], ["f", 1, 0], ["t", 0, 0], ["b", 0, 0]]
    assert answer.json["pair"]["name"] == "pair"
    same = specify(folder, target={"path": f"{folder}/source.parquet"})
    answer = delta("run", same, "--store", folder / "store", "--json")
    assert (answer.code, sum(answer.json["categories"].values())) == (0, 0)


def test_the_text_form_says_the_same(delta, folder):
    """For people."""
    answer = delta("run", specify(folder), "--store", folder / "store")
    assert answer.code == 1
    assert "verdict   1 records differ" in answer.out
    assert "column f: 1 diverged" in answer.out


@pytest.mark.parametrize("shards", [1, 2, 7])
@pytest.mark.parametrize("workers", [1, 2])
def test_shards_and_workers_do_not_show(delta, folder, shards, workers):
    """One pair of data sets, one digest."""
    words = ("run", specify(folder), "--store", folder / "store", "--json")
    once = delta(*words, "--workers", 1).json["manifest"]
    assert delta(*words, "--shards", shards, "--workers", workers).json["manifest"] == once


BAD: list[tuple[str, dict[str, Any], int, str, str]] = [
    ("missing table", {"source": {"uri": "sqlite:///FOLDER/source.db", "table": "none"}}, 2, "DELTA_SIDE_MISSING",
     "source: There is no table none"),
    ("missing database", {"source": {"uri": "sqlite:///FOLDER/none.db", "table": "t"}}, 2, "DELTA_SIDE_MISSING",
     "source: "),
    ("missing file", {"target": {"path": "FOLDER/none.parquet"}}, 2, "DELTA_SIDE_MISSING", "target: "),
    ("missing column", {"key": ["nope"]}, 2, "DELTA_SPEC_COLUMN", "'nope'"),
    ("truncated Parquet", {"target": {"path": "FOLDER/cut.parquet"}}, 2, "DELTA_SIDE_FILE", "target: "),
    ("no database", {"source": {"uri": "sqlite:///FOLDER/text.db", "table": "t"}}, 2, "DELTA_SIDE_FILE", "source: "),
    ("unknown scheme", {"source": {"uri": "oracle://h/d", "table": "t"}}, 2, "DELTA_SIDE_SCHEME", "oracle"),
    ("unreachable", {"source": {"uri": "postgresql://u:secret@127.0.0.1:1/d", "table": "t"}}, 3, "DELTA_CONNECT", ""),
    ("connection of Airflow", {"source": {"conn_id": "x", "table": "t"}}, 2, "DELTA_SIDE_SCHEME", "'x'"),
    ("unset variable", {"source": {"uri": "sqlite:///${NOT_SET_ANYWHERE}", "table": "t"}}, 2, "DELTA_SPEC_ENV",
     "NOT_SET_ANYWHERE"),
    ("unknown field", {"keys": {"nul": 1}}, 2, "DELTA_SPEC_FIELD", "keys.nul"),
    ("repeated key", {"key": ["code"]}, 2, "DELTA_KEY_DUPLICATE", "source: key c occurs in 30 rows"),
    ("incomparable", {"columns": {"map": {"t": "f"}}}, 2, "DELTA_SIDE_INCOMPARABLE", "column 'f' is text in the source"),
    ("no hmac key", {"sensitive": ["t"]}, 2, "DELTA_HMAC_KEY", ""),
    ("too many records", {"limits": {"max_discrepancies": 0}}, 2, "DELTA_RECORD_LIMIT", "more than 0 records"),
    ("too large a body", {"limits": {"max_bytes": 1}}, 2, "DELTA_DISK_LIMIT", "larger than 1 bytes"),
    ("bad filter", {"filter": "t = (SELECT 1)"}, 2, "DELTA_FILTER", ""),
    ("label too long", {"source": {"uri": "sqlite:///FOLDER/source.db", "table": "t", "label": "l" * 300}}, 2,
     "DELTA_SIGN_SIZE", ""),
]  # fmt: skip


@pytest.mark.parametrize(("members", "code", "error", "part"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
@pytest.mark.parametrize("as_json", [True, False])
def test_bad_input_ends_with_its_code_and_nothing_published(delta, folder, members, code, error, part, as_json):
    """A sentence that names side, table, column or key, and what to do; no traceback, no secret."""
    whole = (folder / "target.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    (folder / "text.db").write_text("this is no database\n" * 100)
    written = json.loads(json.dumps(members).replace("FOLDER", str(folder)))
    spec = specify(folder, **written)
    answer = delta("run", spec, "--store", folder / "store", *(["--json"] if as_json else []))
    assert answer.code == code
    if as_json:
        found = answer.json["error"]
        assert (found["code"], answer.err) == (error, "")
        assert part in found["message"]
        assert found["remedy"]
    else:
        assert answer.out == ""
        assert answer.err.startswith(f"[{error}] ")
        assert part in answer.err
    assert "Traceback" not in answer.err
    assert "secret" not in answer.out + answer.err
    assert published(folder) == []


def test_the_next_run_carries_on(delta, folder):
    """After a refusal the same store takes the corrected run."""
    delta("run", specify(folder, key=["code"]), "--store", folder / "store")
    assert delta("run", specify(folder), "--store", folder / "store").code == 1
    assert len(published(folder)) == 2


def test_a_null_key_is_counted_by_side(delta, folder):
    """Before a repeated one."""
    with sqlite3.connect(folder / "source.db") as connection:
        connection.execute("UPDATE t SET id = NULL WHERE id < 3")
    answer = delta("run", specify(folder), "--store", folder / "store", "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, "DELTA_KEY_NULL")
    assert (
        answer.json["error"]["message"] == "key column 'id' is NULL in 3 rows of the source and 0 rows of the target."
    )


def test_a_specification_that_is_not_there_is_unreadable(delta, tmp_path):
    """3, and 2 where it is there and no specification."""
    answer = delta("run", tmp_path / "none.yaml", "--store", tmp_path / "store", "--json")
    assert (answer.code, answer.json["error"]["code"]) == (3, "DELTA_INPUT_PATH")
    (tmp_path / "spec.yaml").write_text("[" * 10_000)
    answer = delta("run", tmp_path / "spec.yaml", "--store", tmp_path / "store", "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, "DELTA_SPEC_SYNTAX")


def test_a_signing_key_that_is_missing_or_wrong_is_refused_before_a_row_is_read(delta, folder):
    """A run of hours must not end in a typing mistake."""
    words = ("run", specify(folder), "--store", folder / "store", "--json")
    answer = delta(*words, "--sign", folder / "none.pem")
    assert (answer.code, answer.json["error"]["code"]) == (3, "DELTA_INPUT_PATH")
    (folder / "key.pem").write_text("no key")
    answer = delta(*words, "--sign", folder / "key.pem")
    assert (answer.code, answer.json["error"]["code"]) == (2, "DELTA_SIGN_KEY")
    assert published(folder) == []


def test_a_store_that_is_a_file_cannot_be_written(delta, folder):
    """3: not a refusal of the data."""
    (folder / "store").write_text("mine")
    answer = delta("run", specify(folder), "--store", folder / "store", "--json")
    assert answer.code in (2, 3)
    assert answer.json["error"]["code"].startswith("DELTA_STORE_")
    assert (folder / "store").read_text() == "mine"


@pytest.mark.parametrize("words", [["--shards", "0"], ["--shards", "x"], ["--workers", "-1"], ["--nope"], []])
def test_a_mistaken_command_is_usage(delta, folder, words):
    """2, as of any command."""
    spec = specify(folder)
    answer = delta("run", spec, *(["--store", folder / "store", *words] if words else []))
    assert answer.code == 2
    assert "usage: airflow-delta" in answer.err


def test_check_reads_no_row_and_prints_the_pairing(delta, folder):
    """What would be compared with what, before anything is."""
    answer = delta("check", specify(folder, columns={"exclude": ["b"]}), "--shards", "3", "--json")
    assert answer.code == 0
    assert [(pair["column"], pair["compared_as"], pair["key"]) for pair in answer.json["columns"]] == [
        ("id", "int", True),
        ("code", "text", False),
        ("f", "float64", False),
        ("t", "text", False),
    ]
    assert answer.json["excluded"] == ["b"]
    assert answer.json["sides"]["source"]["kind"] == "sqlite"
    assert len(answer.json["shards"]) == 3
    text = delta("check", specify(folder))
    assert (text.code, "1 shards" in text.out) == (0, True)
    assert delta("check", specify(folder, key=["nope"])).code == 2


def test_show_prints_what_run_published(delta, folder):
    """The manifest and its records, as one object."""
    digest = delta("run", specify(folder), "--store", folder / "store", "--json").json["manifest"]
    answer = delta("show", digest, "--store", folder / "store", "--json")
    assert answer.code == 0
    assert answer.json["manifest"]["pair"] == {"name": "pair", "source": "sqlite:t", "target": "target.parquet"}
    (record,) = answer.json["records"]
    assert (record["key"], record["columns"]) == (["29"], ["f"])
    assert (record["source_value"], record["target_value"]) == (["7.25"], ["1"])
    assert delta("show", digest, "--store", folder / "store", "--json", "--records", "0").json["records"] == []


def test_counts_publish_no_record(delta, folder):
    """The manifest says how many, and nobody sees which."""
    spec = specify(folder, detail="counts")
    digest = delta("run", spec, "--store", folder / "store", "--json").json["manifest"]
    answer = delta("show", digest, "--store", folder / "store", "--json")
    assert answer.json["records"] == []
    assert answer.json["manifest"]["categories"]["value_diverged"]["records"] == 1


def test_log_finds_a_pair_by_name_id_and_specification(delta, folder):
    """And refuses what fits none."""
    spec = specify(folder)
    pair = delta("run", spec, "--store", folder / "store", "--json").json["pair"]["id"]
    for name in ("pair", pair, spec):
        entries = delta("log", name, "--store", folder / "store", "--json").json["entries"]
        assert [entry["kind"] for entry in entries] == ["sidecar", "manifest"]
        assert entries[1]["verdict"] == "different"
    answer = delta("log", "other", "--store", folder / "store", "--json")
    assert (answer.code, answer.json["error"]["code"]) == (2, "DELTA_INPUT_POLICY")
    assert "the store has pair" in answer.json["error"]["message"]


def test_names_and_values_of_any_characters_come_back(delta, tmp_path):
    """A zero byte, quotes and emoji in the names of columns, in keys and in values."""
    names = ["id", "a\x00\x1b[2Jb", 'q"uote', "\U0001f600"]
    for name, value in (("s", "old\x00\x1b[2J\x9b1m\u202e"), ("t", "new")):
        pq.write_table(
            pa.table([pa.array(["k\x00\n"]), *[pa.array([value])] * 3], names=names), tmp_path / f"{name}.parquet"
        )
    form = {"name": "n", "source": {"path": f"{tmp_path}/s.parquet"}, "target": {"path": f"{tmp_path}/t.parquet"}}
    (tmp_path / "spec.yaml").write_text(json.dumps({**form, "key": ["id"]}))
    answer = delta("run", tmp_path / "spec.yaml", "--store", tmp_path / "store", "--json")
    (record,) = delta("show", answer.json["manifest"], "--store", tmp_path / "store", "--json").json["records"]
    assert (record["key"], record["columns"]) == (["k\x00\n"], names[1:])
    assert record["source_value"] == ["old\x00\x1b[2J\x9b1m\u202e"] * 3
    for words in (("show", answer.json["manifest"], "--store", tmp_path / "store"), ("check", tmp_path / "spec.yaml")):
        text = delta(*words).out
        assert all(line.isprintable() for line in text.splitlines()), text


def test_a_defect_of_ours_is_no_verdict(tmp_path):
    """Python exits with 1 after a traceback, which here would say: there are discrepancies."""
    program = (
        "import airflow_delta_provider.cli as cli\n"
        "def broken(argv=None):\n    raise RuntimeError('boom')\n"
        "cli.main = broken\ncli.entry_point()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert "RuntimeError: boom" in done.stderr
