"""``export``: exact bytes, exact values, whole files, and nothing of a damaged body."""

import csv
import io
import json
import xml.etree.ElementTree as ET

import pytest
from cli_store import EXAMPLE, HOSTILE, MANIFEST, Folder, example, page_index
from pyarrow import parquet

from airflow_delta_provider.core import log
from airflow_delta_provider.core.store.publish import Publication, publish

BODY = "601e47be91292204d443ade2adb1475e7e4c06fca24c3a28953b582d52860c57"


def test_json_lines_are_the_bytes_of_the_body(delta, signed):
    """What an auditor hashes is what was exported."""
    answer = delta("export", MANIFEST, "--store", signed, "--to", "jsonl")
    assert answer.code == 0
    assert answer.out.encode() == (EXAMPLE / "body.jsonl").read_bytes()


def test_json_is_manifest_and_records(delta, signed):
    """One document, the same as show --json."""
    exported = delta("export", MANIFEST, "--store", signed, "--to", "json").json
    assert exported == delta("show", MANIFEST, "--store", signed, "--json").json
    assert [record["category"] for record in exported["records"]] == ["dropped", "added", "value_diverged", "added"]


def test_csv_has_one_line_for_each_record_and_column(delta, signed):
    """Key columns apart, canonical texts, and a form that tells NULL, text, JSON and a missing row."""
    lines = delta("export", MANIFEST, "--store", signed, "--to", "csv").out.split("\n")
    assert (
        lines[0]
        == '"record","id","category","key.id","key.country","column","source","source_form","target","target_form"'
    )
    assert lines[1] == (
        '0,"824d438519914be5c5dd190ffa96a9604db3e11d227d9606b36762a489b75adb","dropped","-7","a|b","amount",'
        '"1000","text",,"absent"'
    )
    assert lines[2].endswith('"name",,"null",,"absent"')
    assert lines[11].endswith('"value_diverged","42","DE","amount","12.5","text","12.51","text"')
    assert len(lines) == 1 + 3 * 5 + 2 + 1


def test_csv_gives_values_exactly_and_says_that_some_look_like_formulas(delta, hostile):
    """A value is never changed in silence; who opens it in a spreadsheet is told of the option."""
    answer = delta("export", hostile.manifest, "--store", hostile, "--to", "csv")
    rows = list(csv.DictReader(io.StringIO(answer.out, newline="")))
    texts = {(row["key.id"], side): row[side] for row in rows for side in ("source", "target")}
    assert texts[("4", "source")] == "=cmd|' /C calc'!A0"
    assert texts[("6", "target")] == "line1\r\nline2"
    assert texts[("12", "source")] == "-7"
    assert "2 texts begin like a formula; open this in a spreadsheet only with --spreadsheet." in answer.err


def test_csv_for_spreadsheets_disarms_formulas_and_says_so(delta, hostile):
    """An apostrophe before each, but not before plain numbers."""
    answer = delta("export", hostile.manifest, "--store", hostile, "--to", "csv", "--spreadsheet")
    rows = list(csv.DictReader(io.StringIO(answer.out, newline="")))
    texts = {(row["key.id"], side): row[side] for row in rows for side in ("source", "target")}
    assert texts[("4", "source")] == "'=cmd|' /C calc'!A0"
    assert texts[("12", "source")] == "-7"
    assert "2 texts have a ' before them that is not in the data." in answer.err


def test_parquet_holds_the_same_cells(delta, hostile, tmp_path):
    """NULL is NULL, and U+0000 survives."""
    path = tmp_path / "cells.parquet"
    assert delta("export", hostile.manifest, "--store", hostile, "--to", "parquet", "-o", path).code == 0
    table = parquet.read_table(path)
    assert table.schema.metadata[b"delta.manifest"].decode() == hostile.manifest
    rows = {row["key.id"]: row for row in table.to_pylist()}
    assert len(rows) == len(HOSTILE)
    assert (rows["7"]["source"], rows["7"]["target"]) == ("nul", "nul\x00")
    assert (rows["8"]["source"], rows["8"]["source_form"], rows["8"]["target"]) == (None, "null", "")
    assert json.loads(rows["9"]["source"])["bytes"] == 70_002
    assert rows["9"]["source_form"] == "json"


def test_junit_has_a_case_for_each_column_and_category(delta, signed):
    """A continuous integration shows which column differs, without a plug-in."""
    suite = ET.fromstring(delta("export", MANIFEST, "--store", signed, "--to", "junit").out).find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("8", "5")
    failed = {case.get("name"): case.find("failure").get("message") for case in suite.iter("testcase") if len(case)}
    assert failed == {
        "added": "2 rows only in the target",
        "dropped": "1 rows only in the source",
        "value_diverged": "1 rows with other values",
        "amount": "1 rows have another value",
        "name": "1 rows have another value",
    }
    properties = {one.get("name"): one.get("value") for one in suite.find("properties")}
    assert properties["manifest"] == MANIFEST
    assert properties["schema.type_changed"] == "amount: decimal(12,2) -> decimal(14,4)"


def test_junit_of_a_part_of_the_key_space_says_which(delta, tmp_path):
    """Test cases that all pass are of those keys only, and a person can see it."""
    for name in ("old", "new"):
        (tmp_path / f"{name}.csv").write_text("id\n1\n2\n3\n")
    sides = {side: {"path": str(tmp_path / f"{name}.csv")} for side, name in (("source", "old"), ("target", "new"))}
    form = {"name": "pair", **sides, "key": ["id"], "csv": {"types": {"id": "text"}}, "key_range": {"from": ["2"]}}
    (tmp_path / "pair.yaml").write_text(json.dumps(form))
    found = json.loads(delta("run", tmp_path / "pair.yaml", "--store", tmp_path / "store", "--json").out)
    answer = delta("export", found["manifest"], "--store", tmp_path / "store", "--to", "junit")
    properties = {one.get("name"): one.get("value") for one in ET.fromstring(answer.out).iter("property")}
    assert {name: value for name, value in properties.items() if name.startswith("key_range")} == {
        "key_range.lower": "78320001"
    }


def test_junit_of_hostile_names_is_xml(delta, hostile):
    """A column name is data: it ends no attribute."""
    suite = ET.fromstring(delta("export", hostile.manifest, "--store", hostile, "--to", "junit").out).find("testsuite")
    assert [case.get("name") for case in suite.iter("testcase")][3:] == ["no<te", "amount"]


def test_sql_is_a_preview_that_refuses_what_it_cannot_write(delta, signed):
    """A keyed digest is no value: those records stand as comments, and are counted."""
    answer = delta("export", MANIFEST, "--store", signed, "--to", "sql")
    lines = answer.out.splitlines()
    assert lines[0].startswith("-- PREVIEW ONLY.")
    assert lines[4] == (
        "-- refused: record 824d438519914be5c5dd190ffa96a9604db3e11d227d9606b36762a489b75adb: "
        'column "blob" holds a keyed digest'
    )
    assert lines[5] == 'DELETE FROM "shop"."orders" WHERE "id" = 42 AND "country" = \'D\';'
    assert lines[6] == (
        'UPDATE "shop"."orders" SET "amount" = 12.5, "name" = \'Zoë\' WHERE "id" = 42 AND "country" = \'DE\' '
        'AND "amount" = 12.51 AND "name" = \'Zoe\u0308\';'
    )
    assert lines[-1] == "-- 1 records refused"
    assert "1 records could not be written" in answer.err


def test_a_value_cannot_end_its_statement(delta, hostile):
    """Quotes are doubled; the statement is one statement."""
    out = delta("export", hostile.manifest, "--store", hostile, "--to", "sql", "--table", 'a"; drop').out
    statement = next(line for line in out.splitlines() if '"id" = 11' in line)
    assert statement == (
        'UPDATE "a""; drop" SET "no<te" = \'\'\'; DROP TABLE t; --\' '
        "WHERE \"id\" = 11 AND \"no<te\" = '\\''; DROP TABLE t; --';"
    )


@pytest.mark.parametrize("form", ["jsonl", "json", "csv", "parquet", "html", "sql"])
def test_nothing_of_a_damaged_body_is_written(delta, signed, tmp_path, form):
    """One wrong byte, and the old file stays as it was."""
    signed.change(signed.blob(BODY), lambda data: data.replace(b"12.51", b"12.61"))
    path = tmp_path / "out"
    path.write_text("before")
    answer = delta("export", MANIFEST, "--store", signed, "--to", form, "-o", path)
    assert answer.code == 2
    assert "[DELTA_BODY_DIGEST]" in answer.err
    assert path.read_text() == "before"
    assert [one.name for one in tmp_path.iterdir() if one.name.endswith(".tmp")] == []


def test_a_retired_body_still_has_a_page_and_test_results(delta, signed):
    """What the manifest alone tells is told; what needs records says that they are gone."""
    log.append(signed.store, signed.pair_id, "retire", BODY)
    signed.blob(BODY).unlink()
    assert "The body was retired" in delta("export", MANIFEST, "--store", signed, "--to", "html").out
    assert delta("export", MANIFEST, "--store", signed, "--to", "junit").code == 0
    answer = delta("export", MANIFEST, "--store", signed, "--to", "jsonl")
    assert answer.code == 3
    assert "[DELTA_STORE_RETIRED]" in answer.err


def test_a_file_that_cannot_be_written_is_exit_3(delta, signed, tmp_path):
    """The folder is not there."""
    answer = delta("export", MANIFEST, "--store", signed, "--to", "jsonl", "-o", tmp_path / "no" / "file")
    assert answer.code == 3
    assert "[DELTA_STORE_WRITE]" in answer.err


def test_an_unknown_form_is_usage(delta, signed):
    """argparse says which there are."""
    assert delta("export", MANIFEST, "--store", signed, "--to", "docx").code == 2


@pytest.fixture
def swept(tmp_path):
    """A store with the second sweep of the worked example, whose source is known by row digests only."""
    folder = EXAMPLE / "sweep"
    read = {name: (folder / f"{name}.json").read_bytes() for name in ("schema", "contract", "structure", "summary")}
    body = (folder / "sweep1.body.jsonl").read_bytes()
    manifest = (folder / "sweep1.manifest.json").read_bytes()
    found = Folder(tmp_path / "swept")
    publish(found.store, Publication(manifest=manifest, body=body, page_index=page_index(body), sidecar={}, **read))
    return found


SWEEP = "0ef2f7feaa7cae33601bc1cac22bf55e6c1bc6da5b54cd80b97f390cf584df5f"


def test_a_sweep_is_exported_with_row_digests(delta, swept):
    """A row that is gone has one cell without column; a changed one shows the digest beside each new value."""
    lines = delta("export", SWEEP, "--store", swept, "--to", "csv").out.splitlines()
    assert [line.split(",")[2:5] for line in lines[1:]] == [
        ['"value_diverged"', '"B2"', '"qty"'],
        ['"value_diverged"', '"B2"', '"price"'],
        ['"dropped"', '"C3"', ""],
        ['"added"', '"G7"', '"qty"'],
        ['"added"', '"G7"', '"price"'],
    ]
    assert lines[1].endswith('"json","8","text"')
    page = delta("export", SWEEP, "--store", swept, "--to", "html").out
    assert "which column changed is not known" in page
    assert "failed: a value was refused" in page
    assert "rows read (adds up)" in page
    assert "row digest" in page


def test_a_sweep_repairs_nothing(delta, swept):
    """Its source has digests, no values."""
    answer = delta("export", SWEEP, "--store", swept, "--to", "sql")
    assert (answer.code, answer.out) == (2, "")
    assert "[DELTA_INPUT_MANIFEST]" in answer.err


def test_a_manifest_of_digests_gives_no_statements(delta, tmp_path):
    """There is no value to write; the refusal says what is recorded instead."""
    found = Folder(tmp_path / "digests")
    receipt = publish(found.store, example("detail-digests."))
    answer = delta("export", receipt.manifest, "--store", found, "--to", "sql")
    assert (answer.code, answer.out) == (2, "")
    assert "[DELTA_DETAIL] The contract records digests" in answer.err
    assert "keyed digest" in delta("export", receipt.manifest, "--store", found, "--to", "html").out
