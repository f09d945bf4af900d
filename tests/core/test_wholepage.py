"""A page that is accepted as a whole is one of which nothing is found record by record."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import orjson
import pytest

from airflow_delta_provider.core.types import LogicalType
from airflow_delta_provider.core.valueform import ValueForm
from airflow_delta_provider.core.verify_pages import Page, PageChecker
from airflow_delta_provider.core.wholecolumn import surely_good
from airflow_delta_provider.core.wholepage import whole_pages

EXAMPLE = Path(__file__).resolve().parents[1] / "vectors" / "example"
DOCUMENTS = [json.loads((EXAMPLE / f"{name}.json").read_text()) for name in ("manifest", "schema", "contract")]
LINES = (EXAMPLE / "body.jsonl").read_bytes().splitlines()
AWKWARD = [None, True, 0, 1.5, "", "-0", "1.50", "1e16", "01", "NaN", "x" * 70_000, "2024-01-02T03:04:05Z", "2024-01-02T03:04:05.10Z",
           "0000-01-01T00:00:00Z", [], {}, {"wtf8": "ff"}, {"omitted": True}, "Infinity", "\x00"]  # fmt: skip


def scans(lines: list[bytes], documents: list[Any] = DOCUMENTS) -> list[tuple[Any, ...]]:
    """Return what a page comes to with and without the check of it as a whole."""
    found = []
    for whole in (True, False):
        checker = PageChecker(*documents)
        if not whole:
            checker._whole = None
        scan = checker.check(Page(0, list(lines)))
        found.append((scan.findings.listed(), scan.categories, scan.columns, scan.first, scan.last, scan.leaves))
    return found


def damaged(chance: random.Random) -> list[bytes]:
    """Return the lines with one thing changed, as a value, a member, a byte or the order of lines."""
    lines = list(LINES)
    place = chance.randrange(len(lines))
    record = orjson.loads(lines[place])
    name = chance.choice(sorted(record))
    match chance.randrange(6):
        case 0:
            record[name] = chance.choice(AWKWARD)
        case 1 if isinstance(record[name], list) and record[name]:
            record[name][chance.randrange(len(record[name]))] = chance.choice(AWKWARD)
        case 2:
            del record[name]
        case 3:
            chance.shuffle(lines)
            return lines
        case 4:
            at = chance.randrange(len(lines[place]))
            lines[place] = lines[place][:at] + bytes([chance.randrange(32, 127)]) + lines[place][at + 1 :]
            return lines
        case _:
            record[chance.choice(["columns", "more", "key"])] = chance.choice(AWKWARD)
    lines[place] = orjson.dumps(record, option=orjson.OPT_SORT_KEYS)
    return lines


def test_the_worked_example_is_accepted_as_a_whole():
    """Else the comparison below would compare nothing."""
    whole = whole_pages(*DOCUMENTS)
    assert whole is not None and whole.check(LINES) is not None
    one, other = scans(LINES)
    assert one == other


def test_damage_is_found_as_record_by_record():
    """The same findings at the same places, whatever is damaged."""
    chance = random.Random(1)
    found = 0
    for _ in range(600):
        lines = damaged(chance)
        one, other = scans(lines)
        assert one == other, lines
        found += bool(one[0])
    assert found > 300


def test_two_lines_that_only_together_are_canonical_are_not_accepted():
    """Lines are judged by themselves: a record cut at a comma, with two on another line, is none."""
    whole = whole_pages(*DOCUMENTS)
    assert whole is not None
    first, second, third, *others = LINES
    half, _, rest = third.partition(b",")
    assert whole.check([first + b"," + second, half, rest, *others]) is None


@pytest.mark.parametrize("columns", [b'"an"', b'{"a":null,"n":null}', b'{"a":1.0,"n":1.0}', b'["n","a"]', b'["a","a"]'])
def test_names_of_columns_stand_in_a_list(columns):
    """To Python a text of letters, and an object, go through as their letters and member names do."""
    manifest, schema, contract = DOCUMENTS
    named = [["a", "decimal"], ["n", "text"], ["s", "timestamp_tz"], ["r", "float64"], ["b", "bytes"]]
    documents = [manifest, {**schema, "columns": named}, {**contract, "rules": [], "sensitive": ["b"]}]
    good = [line.replace(b'["amount","name"]', b'["a","n"]') for line in LINES]
    bad = [line.replace(b'["amount","name"]', columns) for line in LINES]
    assert scans(good, documents)[0][0] == []
    one, other = scans(bad, documents)
    assert one == other and len(one[0]) == 1


@pytest.mark.parametrize("stands", [b"1", b"1.0", b"false", b'"true"', b"[]"])
def test_what_is_left_out_is_told_by_true_alone(stands):
    """To Python 1 and 1.0 equal true; another reader would take them for another record."""
    manifest, schema, contract = DOCUMENTS
    documents = [manifest, schema, {**contract, "detail": "keys", "rules": [], "sensitive": []}]
    good = [orjson.dumps(omitted(orjson.loads(line))) for line in LINES]
    bad = [good[0], good[1].replace(b'{"omitted":true}', b'{"omitted":%b}' % stands, 1), *good[2:]]
    assert scans(good, documents)[0][0] == []
    one, other = scans(bad, documents)
    assert one == other and len(one[0]) == 1


def omitted(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record without its values."""
    for side in ("source_value", "target_value"):
        record[side] = None if record[side] is None else [{"omitted": True}] * len(record[side])
    return record


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("int", ["0", "-5", "9223372036854775808", None], ["-0", "05", "+5", "1.0", "", " 1", "1_0"]),
        ("decimal", ["0", "-1.5", "0.001", "NaN"], ["0.0", "-0", "1.50", ".5", "1.", "1e5", "00.1", "1\n"]),
        ("float64", ["0", "1.5", "1e+21", "NaN", "123456789012"], ["-0", "1.0", "1e21", "1e16", "0x1", "1_0", "inf"]),
        ("uuid", ["00000000-0000-0000-0000-000000000000"], ["0" * 32, "00000000-0000-0000-0000-00000000000G"]),
        ("bytes", ["", "00ff"], ["0", "0F", "0x00"]),
        ("date", ["2026-01-31", "infinity", "0001-01-01"], ["2026-1-31", "2026-02-30", "20260131"]),
        ("timestamp", ["2026-01-31T00:00:00.5", "infinity"], ["2026-01-31 00:00:00", "2026-01-31T00:00:00.50", "2026-01-31T00:00:00Z"]),
        ("timestamp_tz", ["2026-01-31T00:00:00Z"], ["2026-01-31T00:00:00", "2026-01-31T00:00Z", "2026-01-31T01:00:00+01:00"]),
        ("bool", [True, False, None], ["true", 1]),
        ("text", ["", "é", None, {"wtf8": "ff"}], [True, 1, {"wtf8": "41"}]),
    ],
)  # fmt: skip
def test_a_column_is_good_where_each_of_its_values_is(kind, good, bad):
    """What Arrow reads more freely than the format allows is not accepted."""
    form = ValueForm("c", "values", (LogicalType(kind),), 65_536, False)
    assert surely_good(form, good)
    for value in bad:
        assert form.problem(value) is not None and not surely_good(form, [value]), value
        assert not surely_good(form, [*good, value]), value
