"""Our own cases, in the form of the handed ones and by the same runner; refusals are held to what they have to name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cases import test_handed as handed
from cases.notation import read_cases

CASES = read_cases(Path(__file__).with_name("own.jsonl"))
REFUSALS = {
    "schema.text_vs_int": ("DELTA_SIDE_INCOMPARABLE", ["'v'", "text", "int", "read_as"]),
    "schema.read_as.refuse": ("DELTA_VALUE_TEXT", ["source", "'v'", "x7", "2"]),
    "schema.date_vs_timestamp": ("DELTA_SIDE_INCOMPARABLE", ["'v'", "date", "timestamp", "date_as_midnight"]),
    "schema.timestamp_vs_tz": ("DELTA_SIDE_INCOMPARABLE", ["'v'", "timestamp_tz", "zone"]),
    "schema.bool_vs_int": ("DELTA_SIDE_INCOMPARABLE", ["'v'", "bool", "int"]),
    "schema.bytes_vs_text": ("DELTA_SIDE_INCOMPARABLE", ["'v'", "bytes", "text"]),
    "schema.uuid_vs_text": ("DELTA_SIDE_INCOMPARABLE", ["'v'", "uuid", "text"]),
    "schema.unknown_exclude": ("DELTA_SPEC_COLUMN", ["laoded_at"]),
    "schema.unknown_rule_column": ("DELTA_SPEC_COLUMN", ["vv"]),
    "schema.rule_fits_nothing": ("DELTA_RULE_FIT", ["precision"]),
    "schema.rule_wrong_type": ("DELTA_RULE_FIT", ["'v'", "tolerance"]),
    "time.zone.skipped_refused": ("DELTA_RULE_ZONE", ["source", "'v'", "2024-03-31T02:30:00", "1"]),
    "bool.text_refused": ("DELTA_VALUE_TEXT", ["source", "'v'", "maybe", "2"]),
    "json.invalid": ("DELTA_VALUE_JSON", ["source", "'v'", "2"]),
    "key.fold_collision": ("DELTA_KEY_DUPLICATE", ["target", r"\bA\b", r"\ba\b"]),
    "key.json": ("DELTA_KEY_TYPE", ["'id'", "json"]),
    "filter.two_statements": ("DELTA_FILTER", [";|semicolon"]),
    "filter.subquery": ("DELTA_FILTER", ["(?i)subquer"]),
    "filter.unknown_column": ("DELTA_FILTER", [r"\bw\b"]),
    "file.csv.ragged": ("DELTA_SIDE_LINE", [r"_source\.csv", "line 3"]),
    "file.csv.short": ("DELTA_SIDE_LINE", [r"_source\.csv", "line 3"]),
    "file.csv.bad_int": ("DELTA_VALUE_TEXT", ["source", "line 3", r"\bv\b"]),
    "file.csv.repeated_header": ("DELTA_SIDE_LINE", [r"_source\.csv", r"\bv\b"]),
    "file.csv.quote_in_field": ("DELTA_SIDE_LINE", [r"_source\.csv", "line 2"]),
    "file.jsonl.repeated_member": ("DELTA_SIDE_LINE", [r"_source\.jsonl", "line 1"]),
    "file.jsonl.trailing_comma": ("DELTA_SIDE_LINE", [r"_source\.jsonl", "line 2"]),
    "file.jsonl.truncated": ("DELTA_SIDE_LINE", [r"_source\.jsonl", "line 2"]),
}
"""By kind: the code, and patterns that the message has to contain."""

database_for, time_limit = handed.database_for, handed.time_limit


@pytest.mark.usefixtures("time_limit")
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['id']}:{case['kind']}")
def test_an_own_case_gives_the_expected_answer(case, tmp_path, database_for, record_property, monkeypatch):
    """Each is a way in which some tool could be wrong; none may be skipped here for a reason but a missing server."""
    places = handed._written(case, tmp_path, database_for, record_property)
    if not case.get("expected_error"):
        handed._check_records(case, places, tmp_path, monkeypatch)
        return
    code, wanted = REFUSALS[case["kind"]]
    handed._check_refusal(case, places, tmp_path)
    form = handed.runner.specification(case, places, {})
    answer, _ = handed.runner.run_case(form, tmp_path / "again")
    error = answer.output["error"]
    text = f"{error['message']} {error['where'] or ''} {error['remedy']}"
    assert error["code"] == code, text
    missing = [pattern for pattern in wanted if not re.search(pattern, text)]
    assert not missing, f"{text!r} lacks {missing}"
