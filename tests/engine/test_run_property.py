"""Random tables, random damage: every plan, order and batch size gives the bytes of the slow oracle."""

from __future__ import annotations

import os
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from memory_side import MemorySide, opener, spec_form, typed, widened
from slow_oracle import Oracle, OracleColumn, Verdict

from airflow_delta_provider.adapters.side import Order, RangeCost
from airflow_delta_provider.core import documents, spill
from airflow_delta_provider.core.errors import DeltaError
from airflow_delta_provider.core.keys import encode_key
from airflow_delta_provider.core.recorded import HmacKey
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.core.types import LogicalType
from airflow_delta_provider.engine.run import reconcile

EXAMPLES = int(os.environ.get("DELTA_EXAMPLES", "100"))
KEY = HmacKey("k1", b"secret")
BIG = 2**63
POOLS: dict[str, list[Any]] = {
    "int": ["0", "1", "-1", "2", "7", "255", "256", "-256", "-257", str(BIG - 1), str(-BIG), str(BIG), str(2**64 - 1),
            str(-BIG - 1), str(10**30)],
    "decimal": ["0", "1", "-1", "2", "0.5", "-0.5", "0.25", "10", "0.1", "NaN", "Infinity", "-Infinity", str(10**30),
                "0.0000000000001", "1" * 40],
    "float64": ["0", "1", "-1", "2", "0.5", "-0.5", "0.1", "NaN", "Infinity", "-Infinity", "1e+21", "5e-324"],
    "float32": ["0", "1", "-1", "2", "0.5", "-0.5", "0.1", "NaN", "Infinity", "-Infinity"],
    "text": ["", "a", "A", "b", "aa", "a\x00", "a\x00b", "\x00", "é", "\U0001f600", "\uffff", " a", "a ", "ab" * 110,
             "ab" * 110 + "c", "ß"],
    "bytes": ["", "00", "0000", "01", "ff", "61", "6100"],
    "bool": [True, False],
    "date": ["1970-01-01", "1969-12-31", "2024-02-29", "+010000-01-01", "-004712-01-01"],
    "time": ["00:00:00", "24:00:00", "12:00:00.000001", "12:00:00.5"],
    "timestamp": ["1970-01-01T00:00:00", "1969-12-31T23:59:59.999999", "2024-01-01T00:00:00.1", "2262-04-11T23:47:16"],
    "timestamp_tz": ["1970-01-01T00:00:00Z", "1969-12-31T23:59:59.999999Z", "2024-01-01T00:00:00.1Z"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "123e4567-e89b-12d3-a456-426614174000"],
}  # fmt: skip
INVALID = {"wtf8": "61ff"}
PAIRS = [(kind, kind) for kind in POOLS] + [
    ("int", "decimal"), ("decimal", "int"), ("float64", "decimal"), ("int", "float64"), ("float32", "float64"),
    ("float32", "int"),
]  # fmt: skip
FILTER = "f <> 'draft'"


def pool(kind: str) -> st.SearchStrategy[Any]:
    if kind == "int":
        return st.sampled_from(POOLS[kind]) | st.integers(-40, 40).map(str)
    if kind == "text":
        return st.sampled_from(POOLS[kind]) | st.text(st.sampled_from("abAB"), max_size=2)
    return st.sampled_from(POOLS[kind])


@st.composite
def columns(draw: Any, name: str, *, is_key: bool, whole: bool = False) -> OracleColumn:
    source, target = ("int", "int") if whole else draw(st.sampled_from(PAIRS))
    rule = None
    if source == target == "text" and draw(st.booleans()):
        rule = ("casefold", draw(st.sampled_from(["both", "source", "target"])))
    elif is_key and source == target == "int" and draw(st.booleans()):
        source, rule = "text", ("read_as", "source")
    elif not is_key and source == target == "int" and draw(st.booleans()):
        rule = ("tolerance", "1")
    sensitive = not is_key and draw(st.integers(0, 3)) == 0
    return OracleColumn(name, source, target, rule, sensitive)


def rule_form(column: OracleColumn) -> list[dict[str, Any]]:
    name, amount = column.rule or ("", "")
    if name == "tolerance":
        return [{"tolerance": {"abs": amount}}]
    if name == "read_as":
        return [{"read_as": {"type": "int", "side": amount}}]
    return [{"normalize": {"steps": ["casefold"], "side": amount} if amount != "both" else ["casefold"]}]


@st.composite
def cases(draw: Any, *, whole_first: bool = False) -> dict[str, Any]:
    key = [
        draw(columns(f"k{number}", is_key=True, whole=whole_first and not number))
        for number in range(draw(st.sampled_from([1, 1, 2, 3])))
    ]
    values = [draw(columns(f"v{number}", is_key=False)) for number in range(draw(st.integers(0, 3)))]
    both = [*key, *values]

    def cell(column: OracleColumn, kind: str, nullable: bool) -> Any:
        base = pool("int" if column.rule and column.rule[0] == "read_as" else kind)
        if kind == "text" and column in values:
            base = base | st.just(INVALID) if column.rule is None else base
        return base | st.none() if nullable else base

    nulls = draw(st.sampled_from(["refuse", "refuse", "set_aside", "match"]))
    null_keys = nulls != "refuse" or draw(st.integers(0, 4)) == 0
    with_filter = draw(st.booleans())

    def row(side: str) -> st.SearchStrategy[dict[str, Any]]:
        cells = {
            column.name: cell(column, getattr(column, side), null_keys if column in key else True) for column in both
        }
        return st.fixed_dictionaries({**cells, "f": st.sampled_from(["draft", "live", "live", None])})

    rows_max = draw(st.sampled_from([12, 6, 20, 1, 0]))
    source = draw(st.lists(row("source"), min_size=rows_max * 2 // 3, max_size=rows_max))
    target = [moved for one in source if (moved := damaged(draw, one, both)) is not None]
    target += draw(st.lists(row("target"), max_size=draw(st.sampled_from([6, 2, 0]))))
    if draw(st.integers(0, 2)):
        source, target = unique(source, key), unique(target, key)
    return {
        "key": key,
        "values": values,
        "source": source,
        "target": draw(st.permutations(target)),
        "nulls": nulls,
        "duplicates": draw(st.sampled_from(["refuse", "set_aside"])),
        "filter": with_filter,
        "detail": draw(st.sampled_from(["values", "values", "digests", "keys", "counts"])),
    }


def damaged(draw: Any, row: dict[str, Any], columns: list[OracleColumn]) -> dict[str, Any] | None:
    """Return the target's row for a source's row: most often the same values, where the target's type has them."""
    if draw(st.integers(0, 5)) == 0:
        return None
    moved = dict(row)
    for column in columns:
        kept = widened(row[column.name], column.source, column.schema) if column.rule is None else row[column.name]
        fits = kept is None or column.source == column.target or kept in POOLS[column.target] or small(column, kept)
        if not fits or (column.name.startswith("v") and draw(st.integers(0, 4)) == 0):
            kept = draw(pool(column.target))
        moved[column.name] = kept
    return moved


def small(column: OracleColumn, value: Any) -> bool:
    return column.target == "int" and isinstance(value, str) and value.lstrip("-").isdigit() and len(value) < 4


def unique(rows: list[dict[str, Any]], key: list[OracleColumn]) -> list[dict[str, Any]]:
    return list({repr([str(row[column.name]).casefold() for column in key]): row for row in rows}.values())


@st.composite
def plans(draw: Any, case: dict[str, Any]) -> dict[str, Any]:
    """One way to run the case: none of it may show in the result."""
    order = draw(st.sampled_from(list(Order)))
    ruled = any(column.rule for column in case["key"])
    return {
        "shards": draw(st.sampled_from([1, 2, 2, 7, 7, 64])),
        "bounds": draw(st.lists(st.lists(st.integers(-30, 30), min_size=1, max_size=1), max_size=4)),
        "orders": (order, draw(st.sampled_from(list(Order)))),
        "costs": draw(st.tuples(*[st.sampled_from(list(RangeCost))] * 2)),
        "batch_rows": draw(st.tuples(*[st.sampled_from([1, 2, 3, 7, 1000])] * 2)),
        "exact": draw(st.booleans()),
        "mixed": draw(st.booleans()),
        "memory_bytes": draw(st.sampled_from([1, 200, 1 << 20])),
        "shuffle": draw(st.booleans()) and not ruled,
    }


def side_of(case: dict[str, Any], name: str, plan: dict[str, Any]) -> MemorySide:
    number = ("source", "target").index(name)
    types = typed(**{column.name: getattr(column, name) for column in (*case["key"], *case["values"])}, f="text")
    rows = [tuple(row[column] for column in types) for row in case[name]]
    if plan["shuffle"]:
        rows = rows[::-1]
    return MemorySide(
        types,
        rows,
        order_of=plan["orders"][number],
        cost=plan["costs"][number],
        batch_rows=plan["batch_rows"][number],
        exact=plan["exact"],
        mixed=plan["mixed"],
    )


def form_of(case: dict[str, Any]) -> dict[str, Any]:
    form = spec_form(
        key=[column.name for column in case["key"]],
        keys={"nulls": case["nulls"], "duplicates": case["duplicates"]},
        columns={"exclude": ["f"]},
        rules={column.name: rule_form(column) for column in (*case["key"], *case["values"]) if column.rule},
        detail=case["detail"],
    )
    hidden = [column.name for column in case["values"] if column.sensitive]
    if hidden:
        form["sensitive"] = hidden
    if case["filter"]:
        form["filter"] = FILTER
    return form


def run(case: dict[str, Any], plan: dict[str, Any], form: dict[str, Any]) -> Any:
    """Return (manifest id, manifest, summary, body), or the code of the refusal."""
    store = MemoryStore()
    sides = [side_of(case, name, plan) for name in ("source", "target")]
    small_sort = partial(spill.sort_batches, memory_bytes=plan["memory_bytes"])
    with (
        patch("airflow_delta_provider.core.stream.sort_batches", small_sort),
        patch("airflow_delta_provider.engine.spilled.sort_batches", small_sort),
    ):
        try:
            outcome = reconcile(
                parse_spec(form),
                store,
                opener(*sides),
                shards=plan["shards"] if "shards" not in form else None,
                hmac_key=KEY,
            )
        except DeltaError as error:
            assert not list(store.list("pairs"))
            return error.code
    body = None
    if case["detail"] != "counts":
        body = blobs.get_blob(store, outcome.manifest["body"]["sha256"])
    return outcome.receipt.manifest, outcome.manifest, outcome.summary, body


def expected(case: dict[str, Any], lower: bytes | None = None, upper: bytes | None = None) -> tuple[Oracle, Verdict]:
    keep = {name: (lambda row: row["f"] not in ("draft", None)) for name in ("source", "target")}
    oracle = Oracle(
        case["key"],
        case["values"],
        keep if case["filter"] else {},
        case["nulls"],
        case["duplicates"],
        lower,
        upper,
        case["detail"],
    )
    return oracle, oracle.reconcile(case["source"], case["target"])


def agree(found: Any, verdict: Verdict, case: dict[str, Any]) -> None:
    """Hold one result to the oracle's."""
    if verdict.refused:
        assert found == verdict.refused
        return
    assert not isinstance(found, str), f"refused with {found}, expected {len(verdict.records)} records"
    _, manifest, summary, body = found
    assert manifest["population"] == verdict.population
    assert {name: part["records"] for name, part in manifest["categories"].items()} == {
        name: sum(record["category"] == name for record in verdict.records)
        for name in ("added", "dropped", "value_diverged")
    }
    assert summary["columns"] == verdict.summary
    assert summary["rules"] == verdict.rules
    if body is not None:
        assert body.decode() == verdict.body.decode()


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), print_blob=True)
@given(st.data())
def test_no_plan_order_or_batch_size_shows_in_the_manifest(data):
    """One pair of tables has one manifest: the oracle's, byte by byte, however the work was cut."""
    case = data.draw(cases(), label="case")
    verdict = expected(case)[1]
    event(verdict.refused or f"{min(len(verdict.records), 5)} records")
    form = form_of(case)
    ids = set()
    for number in range(3):
        plan = data.draw(plans(case), label=f"plan {number}")
        whole = dict(form)
        if plan["bounds"] and case["key"][0].schema == "int":
            whole["shards"] = {"bounds": plan["bounds"]}
        found = run(case, plan, whole)
        agree(found, verdict, case)
        ids.add(found if isinstance(found, str) else found[0])
    assert len(ids) == 1


@settings(max_examples=max(EXAMPLES // 4, 1), suppress_health_check=list(HealthCheck), print_blob=True)
@given(st.data())
def test_a_key_range_counts_and_compares_the_rows_of_the_range_alone(data):
    """Rows outside ``key_range`` are neither rows, nor skipped, nor refused for their keys' repetition."""
    case = data.draw(cases(whole_first=True), label="case")
    lower, upper = sorted(data.draw(st.lists(st.integers(-30, 30), min_size=2, max_size=2, unique=True)))
    bounds = [encode_key([str(bound)], [LogicalType("int")]) for bound in (lower, upper)]
    form = {**form_of(case), "key_range": {"from": [lower], "to": [upper]}}
    verdict = expected(case, *bounds)[1]
    for number in range(2):
        agree(run(case, data.draw(plans(case), label=f"plan {number}"), form), verdict, case)


def test_the_oracle_and_the_documents_agree_on_what_a_summary_is():
    """The oracle's own shape is held to the package's validator once, so that a mistake in it cannot hide."""
    case = {
        "key": [OracleColumn("k0", "int", "int")],
        "values": [OracleColumn("v0", "text", "text", ("casefold", "both"))],
        "source": [{"k0": "1", "v0": "A", "f": "live"}, {"k0": "2", "v0": "A", "f": "live"}],
        "target": [{"k0": "1", "v0": "a", "f": "live"}, {"k0": "2", "v0": "b", "f": "live"}],
        "nulls": "refuse",
        "duplicates": "refuse",
        "filter": False,
        "detail": "values",
    }
    verdict = expected(case)[1]
    assert (verdict.summary, verdict.rules) == ([["v0", 1, 1]], [["v0", 0, 1]])
    assert [record["source_value"] for record in verdict.records] == [["A"]]
    documents.parse_summary(documents.build_summary(verdict.summary, verdict.rules))


@pytest.mark.nightly
def test_the_long_form_of_the_property():
    """The same property over many more tables."""
    inner = test_no_plan_order_or_batch_size_shows_in_the_manifest.hypothesis.inner_test
    settings(max_examples=3000, suppress_health_check=list(HealthCheck))(given(st.data())(inner))()
