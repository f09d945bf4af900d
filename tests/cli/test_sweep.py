"""``airflow-delta sweep``: exit codes, JSON and text, on two engines, with a signature."""

import json
import sqlite3

import pytest

from airflow_delta_provider.cli import main
from airflow_delta_provider.core.errors import InputPathError

ROWS = [("a", 1, "x"), ("b", 2, "x"), ("c", 3, "draft")]


def fill_sqlite(path, rows):
    with sqlite3.connect(path) as connection:
        connection.execute("drop table if exists stock")
        connection.execute("create table stock(sku text not null, qty integer, status text)")
        connection.executemany("insert into stock values (?, ?, ?)", rows)


def fill_duckdb(path, rows):
    import duckdb

    with duckdb.connect(str(path)) as connection:
        connection.execute("create or replace table stock(sku varchar, qty integer, status varchar)")
        connection.executemany("insert into stock values (?, ?, ?)", rows)


def fill_csv(path, rows):
    path.write_text("sku,qty,status\n" + "".join(f"{sku},{qty},{status}\n" for sku, qty, status in rows))


FILL = {"sqlite": fill_sqlite, "duckdb": fill_duckdb, "csv": fill_csv}


@pytest.fixture(params=list(FILL))
def stock(request, tmp_path):
    """A data set of one kind: a function that fills it, and the path of a specification."""
    kind = request.param
    data, spec = tmp_path / f"stock.{kind}", tmp_path / "stock.yaml"
    target = {"path": str(data)} if kind == "csv" else {"uri": f"{kind}:///{data}", "table": "stock"}
    form = {
        "name": "stock",
        "target": {**target, "label": "shop"},
        "key": ["sku"],
        "columns": {"exclude": ["status"]},
        "filter": "status <> 'draft'",
    }
    spec.write_text(json.dumps(form))
    return lambda rows: FILL[kind](data, rows), spec, tmp_path / "store"


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    out = capsys.readouterr().out
    return code, out


def test_a_sweep_tells_what_changed(stock, capsys):
    """1 where something is new, changed or absent; 0 where nothing is; the same numbers by every engine."""
    fill, spec, store = stock
    fill(ROWS)
    code, out = run(capsys, "sweep", spec, "--store", store, "--json")
    first = json.loads(out)
    assert code == 1
    assert first["categories"] == {"added": 2, "dropped": 0, "value_diverged": 0}
    assert (first["number"], first["predecessor"]) == (0, None)
    code, out = run(capsys, "sweep", spec, "--store", store, "--json")
    assert (code, json.loads(out)["sweep"]["unchanged"]) == (0, 2)
    fill([("a", 1, "y"), ("b", 3, "x"), ("d", 4, "x")])
    code, out = run(capsys, "sweep", spec, "--store", store, "--json", "--shards", 2, "--workers", 1)
    third = json.loads(out)
    assert code == 1
    assert third["sweep"] == {
        "absent": 0, "changed": 1, "duplicate_key": 0, "failed": 0, "new": 1, "null_key": 0, "read": 3, "skipped": 0,
        "unchanged": 1,
    }  # fmt: skip
    assert third["coverage"] == {
        "filter": "status <> 'draft'", "key_range": {"lower": None, "upper": None}, "whole": True,
    }  # fmt: skip
    assert third["summary"] == {"columns": [], "format": "delta-summary/1", "rules": []}
    assert third["population"]["target"] == {"duplicate_key": 0, "null_key": 0, "rows": 3, "skipped": 0}
    code, out = run(capsys, "verify", third["manifest"], "--store", store)
    assert (code, out.splitlines()[-1]) == (0, "verdict   verified")
    code, out = run(capsys, "export", third["manifest"], "--store", store, "--to", "jsonl")
    assert [json.loads(line)["key"] for line in out.splitlines()] == [["b"], ["d"]]


def test_text_for_people_states_what_was_covered(tmp_path, capsys):
    """A bounded or filtered sweep cannot be taken for a whole one."""
    fill_sqlite(tmp_path / "f.db", ROWS)
    form = {
        "name": "stock",
        "target": {"uri": f"sqlite:///{tmp_path}/f.db", "table": "stock"},
        "key": ["sku"],
        "filter": "status <> 'draft'",
        "key_range": {"from": ["b"]},
    }
    (tmp_path / "s.yaml").write_text(json.dumps(form))
    code, out = run(capsys, "sweep", tmp_path / "s.yaml", "--store", tmp_path / "store")
    assert code == 1
    assert "  filter: status <> 'draft'\n" in out
    assert "  covers [b .. ) only: keys outside were not looked at\n" in out
    assert "verdict   1 keys changed\n" in out


def test_rows_that_could_not_be_read_are_a_finding(tmp_path, capsys):
    """Nothing changed that could be seen, but one row has no verdict."""
    form = {
        "name": "stock",
        "target": {"uri": f"sqlite:///{tmp_path}/f.db", "table": "stock"},
        "key": ["sku"],
        "rules": {"status": [{"read_as": {"type": "int"}}]},
    }
    (tmp_path / "s.yaml").write_text(json.dumps(form))
    for status in ("7", "seven"):
        fill_sqlite(tmp_path / "f.db", [("a", 1, status)])
        code, out = run(capsys, "sweep", tmp_path / "s.yaml", "--store", tmp_path / "store")
    assert code == 1
    assert "verdict   nothing changed, 1 could not be read\n" in out


def test_a_refusal_exits_with_2_and_names_its_code(tmp_path, capsys):
    """As every command does."""
    fill_sqlite(tmp_path / "f.db", [*ROWS, ("a", 1, "x")])
    form = {"name": "s", "target": {"uri": f"sqlite:///{tmp_path}/f.db", "table": "stock"}, "key": ["sku"]}
    (tmp_path / "s.yaml").write_text(json.dumps(form))
    code, out = run(capsys, "sweep", tmp_path / "s.yaml", "--store", tmp_path / "store", "--json")
    assert (code, json.loads(out)["error"]["code"]) == (2, "DELTA_KEY_DUPLICATE")
    (tmp_path / "s.yaml").write_text(json.dumps({**form, "source": form["target"]}))
    code, out = run(capsys, "sweep", tmp_path / "s.yaml", "--store", tmp_path / "store", "--json")
    assert (code, json.loads(out)["error"]["code"]) == (2, "DELTA_SPEC_FIELD")
    code, out = run(capsys, "sweep", tmp_path / "none.yaml", "--store", tmp_path / "store", "--json")
    assert (code, json.loads(out)["error"]["code"]) == (3, InputPathError.code)


def test_another_predecessor_than_the_one_expected_is_refused(tmp_path, capsys):
    """A pipeline that has processed one generation wants the next one, and no other."""
    fill_sqlite(tmp_path / "f.db", ROWS)
    form = {"name": "s", "target": {"uri": f"sqlite:///{tmp_path}/f.db", "table": "stock"}, "key": ["sku"]}
    (tmp_path / "s.yaml").write_text(json.dumps(form))
    common = ("sweep", tmp_path / "s.yaml", "--store", tmp_path / "store", "--json")
    first = json.loads(run(capsys, *common)[1])["generation"]
    second = json.loads(run(capsys, *common, "--predecessor", first)[1])
    assert second["predecessor"] == first
    code, out = run(capsys, *common, "--predecessor", first)
    assert (code, json.loads(out)["error"]["code"]) == (2, "DELTA_GENERATION_CHAIN")


def test_a_signed_sweep_is_verified_against_its_key(tmp_path, capsys):
    """The manifest names the predecessor, so its signature vouches for the chain."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    pem = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (tmp_path / "key.pem").write_bytes(key.private_bytes(*pem))
    public = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "key.pub").write_bytes(key.public_key().public_bytes(*public))
    fill_sqlite(tmp_path / "f.db", ROWS)
    form = {"name": "s", "target": {"uri": f"sqlite:///{tmp_path}/f.db", "table": "stock"}, "key": ["sku"]}
    (tmp_path / "s.yaml").write_text(json.dumps(form))
    store = tmp_path / "store"
    _, out = run(capsys, "sweep", tmp_path / "s.yaml", "--store", store, "--json", "--sign", tmp_path / "key.pem")
    code, _ = run(capsys, "verify", json.loads(out)["manifest"], "--store", store, "--trust", tmp_path / "key.pub")
    assert code == 0
