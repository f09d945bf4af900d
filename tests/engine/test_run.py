"""A whole run over twins: refusals publish nothing and name what to mend; hostile tables get the right verdict."""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from memory_side import MemorySide, opener, spec_form, typed

from airflow_delta_provider.adapters.side import Order, RangeCost, Request
from airflow_delta_provider.core import errors
from airflow_delta_provider.core.keys import encode_key
from airflow_delta_provider.core.recorded import HmacKey
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.core.types import LogicalType
from airflow_delta_provider.engine.run import Outcome, plain, reconcile

INT, TEXT = LogicalType("int"), LogicalType("text")
TYPES = typed(id="int", v="text")


def table(*rows: tuple[Any, ...], **options: Any) -> MemorySide:
    return MemorySide(TYPES, list(rows), **options)


def run(
    source: Any,
    target: Any,
    *,
    shards: int | None = None,
    hmac_key: HmacKey | None = None,
    store: MemoryStore | None = None,
    **members: Any,
) -> tuple[Outcome, list[dict[str, Any]]]:
    store = store or MemoryStore()
    form = spec_form(**{"key": ["id"], **members})
    outcome = reconcile(parse_spec(form), store, opener(source, target), shards=shards, hmac_key=hmac_key)
    body = blobs.get_blob(store, outcome.manifest["body"]["sha256"])
    return outcome, [json.loads(line) for line in body.splitlines()]


def refused(error: type[errors.DeltaError], source: Any, target: Any, **members: Any) -> str:
    """Return the message of a refusal, after which nothing is visible and both sides are closed."""
    store = MemoryStore()
    with pytest.raises(error) as caught:
        run(source, target, store=store, **members)
    assert type(caught.value) is error
    assert str(caught.value).startswith(f"[{error.code}] ")
    assert caught.value.remedy
    assert [path for path in store.list() if "/log/" in path] == []
    for side in (source, target):
        assert side.opened == side.finished
        assert side.closed >= 1
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("delta-read-")] == []
    return caught.value.message


def shown(outcome: Outcome) -> dict[str, int]:
    return {name: part["records"] for name, part in outcome.manifest["categories"].items() if part["records"]}


def test_null_keys_are_counted_over_both_whole_sides():
    """The one that was met first says little about what is to be mended."""
    source = table(("1", "a"), (None, "b"), (None, "c"))
    target = table((None, "d"), ("2", "e"))
    message = refused(errors.KeyNullError, source, target)
    assert message == "key column 'id' is NULL in 2 rows of the source and 1 row of the target."


@pytest.mark.parametrize("order", list(Order))
@pytest.mark.parametrize("shards", [1, 3])
def test_null_keys_are_reported_before_repeated_ones(order, shards):
    """Whichever a stream meets first, in whichever shard."""
    rows = [("1", "a"), ("1", "b"), ("2", "c"), (None, "d"), ("9", "e")]
    source = MemorySide(TYPES, rows, order_of=order, batch_rows=2)
    message = refused(errors.KeyNullError, source, table(("1", "a")), shards=shards)
    assert message == "key column 'id' is NULL in 1 row of the source and 0 rows of the target."


@pytest.mark.parametrize("order", list(Order))
def test_a_repeated_key_is_named_with_side_and_count(order):
    """In unsorted sides too: all its rows are counted, not those that met in one batch."""
    rows = [("7", "a"), ("1", "b"), ("7", "c"), ("3", "d"), ("7", "e")]
    source = MemorySide(TYPES, rows, order_of=order, batch_rows=2)
    message = refused(errors.KeyDuplicateError, source, table(("7", "a"), ("7", "b"), order_of=order))
    assert message == "source: key 7 occurs in 3 rows; target: key 7 occurs in 2 rows."


def test_keys_that_collide_under_a_rule_are_shown_as_they_stand():
    """The canonical key is in neither table."""
    types = typed(id="text", v="text")
    source = MemorySide(types, [("A", "x"), ("a", "y")])
    message = refused(
        errors.KeyDuplicateError, source, MemorySide(types, [("b", "x")]), rules={"id": [{"normalize": ["casefold"]}]}
    )
    assert message == "source: keys A and a are equal under the key's rules (2 rows)."


def test_a_composite_key_is_named_with_all_its_columns():
    """And NULL as NULL."""
    types = typed(a="int", b="text")
    source = MemorySide(types, [("1", None), ("1", None)])
    form = {"key": ["a", "b"], "keys": {"nulls": "match"}}
    message = refused(errors.KeyDuplicateError, source, MemorySide(types, []), **form)
    assert message == "source: key (1, NULL) occurs in 2 rows."
    message = refused(errors.KeyNullError, source, MemorySide(types, []), key=["a", "b"])
    assert message == "key column 'a', 'b' is NULL in 2 rows of the source and 0 rows of the target."


@pytest.mark.parametrize(
    ("types", "members", "error", "part"),
    [
        (typed(id="int", v="text"), {"key": ["none"]}, errors.SpecColumnError, "neither side has a column 'none'"),
        (typed(id="int", v="text"), {"key": None}, errors.SpecKeyError, "key is missing"),
        (typed(id="int", v="int"), {}, errors.SideIncomparableError, "column 'v' is text in the source and int in the"),
        (typed(id="text", v="text"), {}, errors.SideIncomparableError, "column 'id' is int in the source and text"),
        ({"id": INT, "v": None}, {}, errors.SideColumnTypeError, "target: column 'v' has type mystery. Cast it."),
        (typed(id="int", v="text"), {"key": ["id", "v"], "sensitive": ["v"]}, errors.KeySensitiveError, "key column 'v'"),
        (typed(id="int", v="text"), {"filter": "v ="}, errors.FilterError, ""),
        (typed(id="int", v="text"), {"filter": "nope = 1"}, errors.FilterError, "nope"),
        (typed(id="int", v="text"), {"rules": {"v": [{"rond": {}}]}}, errors.RuleUnknownError, "rond"),
        (typed(id="int", v="text"), {"key_range": {"from": ["x"]}}, errors.SpecValueError, "'x', which is no int"),
        (typed(id="int", v="text"), {"key_range": {"from": [1, 2]}}, errors.SpecValueError, "has 2 values; the key has 1"),
        (typed(id="int", v="text"), {"key_range": {"from": [5], "to": [5]}}, errors.SpecValueError, "holds no key"),
        (typed(id="int", v="text"), {"shards": {"bounds": [["x"]]}}, errors.SpecValueError, "shards.bounds holds 'x'"),
        (typed(id="int", v="text"), {"schema_version": "v" * 64, "source": {"path": "source", "label": "l" * 256}},
         errors.SignSizeError, ""),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused_before_a_row_is_read(types, members, error, part):
    """Each refusal has one code and names side, column or field."""
    source, target = table(("1", "a")), MemorySide(types, [])
    form = {name: value for name, value in {"key": ["id"], **members}.items() if value is not None}
    store = MemoryStore()
    secret = HmacKey("k", b"s")
    with pytest.raises(error) as caught:
        reconcile(parse_spec(spec_form(**form)), store, opener(source, target), hmac_key=secret)
    assert type(caught.value) is error
    assert part in caught.value.message
    assert (source.opened, target.opened) == (0, 0)
    assert (source.closed, target.closed) == (1, 1)
    assert list(store.list("pairs")) == []


def test_a_key_of_a_type_without_key_bytes_is_refused():
    """Intervals have no order."""
    types = typed(id="interval")
    refused(errors.KeyTypeError, MemorySide(types, []), MemorySide(types, []))


@pytest.mark.parametrize(
    "members", [{"sensitive": ["v"]}, {"detail": "digests"}, {"detail": "counts", "sensitive": ["v"]}]
)
def test_keyed_digests_need_a_key(members):
    """Never an unkeyed one instead; neither side is opened."""
    source = table(("1", "a"))
    store = MemoryStore()
    with pytest.raises(errors.HmacKeyError, match=r"\[DELTA_HMAC_KEY\]"):
        reconcile(parse_spec(spec_form(key=["id"], **members)), store, opener(source, source))
    assert source.closed == 0


@pytest.mark.parametrize("shards", [1, 4])
def test_more_records_than_the_limit_are_refused(shards):
    """There is no "first 1,000 differences" passed off as a result; the limit itself passes."""
    source, target = table(*((str(number), "a") for number in range(8))), table()
    limit = {"limits": {"max_discrepancies": 7}}
    message = refused(errors.RecordLimitError, source, target, shards=shards, **limit)
    assert message == "more than 7 records differ; 8 had been counted."
    outcome, _ = run(source, target, shards=shards, limits={"max_discrepancies": 8})
    assert outcome.records == 8


@pytest.mark.parametrize("shards", [1, 4])
def test_a_body_larger_than_the_limit_is_refused(shards):
    """Summed over the shards."""
    source, target = table(*((str(number), "a") for number in range(8))), table()
    outcome, _ = run(source, target)
    size = outcome.manifest["body"]["bytes"]
    refused(errors.DiskLimitError, source, target, shards=shards, limits={"max_bytes": size - 1})
    run(source, target, shards=shards, limits={"max_bytes": size})


@pytest.mark.parametrize("empty", ["source", "target", "neither"])
def test_a_run_beyond_its_time_is_refused(empty, monkeypatch):
    """Also while one side has nothing to compare with."""
    clock = iter(range(0, 10**6, 10))
    monkeypatch.setattr("airflow_delta_provider.engine.run.time.monotonic", lambda: float(next(clock)))
    rows = [(str(number), "a") for number in range(50)]
    sides = {name: table(*([] if name == empty else rows), batch_rows=1) for name in ("source", "target")}
    message = refused(errors.WallLimitError, sides["source"], sides["target"], limits={"max_seconds": 5})
    assert message == "the run took longer than 5 s."
    assert max(len(side.requests) for side in sides.values()) == 1


@pytest.mark.parametrize("cost", list(RangeCost))
def test_a_sort_beyond_its_time_is_refused(cost, monkeypatch):
    """Before the first row is compared: a sort of hours is part of the run."""
    clock = iter(range(0, 10**6, 10))
    monkeypatch.setattr("airflow_delta_provider.engine.run.time.monotonic", lambda: float(next(clock)))
    made: list[int] = []
    rows = [(str(number), "a") for number in range(500)]
    source = table(*rows, batch_rows=1, order_of=Order.NONE, cost=cost, before_batch=made.append)
    refused(errors.WallLimitError, source, table(*rows[:1]), limits={"max_seconds": 5}, shards=2)
    assert max(made) < 20


def test_a_side_that_fails_in_the_middle_ends_the_run_with_its_name():
    """A connection that drops: nothing is published, both readers stop."""

    def drop(number: int) -> None:
        if number == 3:
            raise errors.SideReadError("table twin: the server closed the connection.")

    rows = [(str(number), "a") for number in range(50)]
    source, target = table(*rows, batch_rows=5), table(*rows, batch_rows=5, before_batch=drop)
    message = refused(errors.SideReadError, source, target)
    assert message == "target: table twin: the server closed the connection."


def test_an_engine_whose_order_is_not_the_keys_is_refused():
    """A collation that nobody knew of gives no verdict."""

    class Liar(MemorySide):
        def _batches(self, request: Request) -> Iterator[pa.RecordBatch]:
            for start in range(0, len(self.rows), self.batch_rows):
                yield self._batch(self.rows[start : start + self.batch_rows], request, 0)

    rows = [(str(number), "a") for number in (5, 6, 1, 2, 9, 10, 3, 4)]
    for cost, shards in [(RangeCost.INDEX, 1), (RangeCost.SCAN, 1), (RangeCost.SCAN, 2), (RangeCost.SCAN, 4)]:
        sides = [Liar(TYPES, rows, batch_rows=2, cost=cost) for _ in range(2)]
        message = refused(errors.UnsortedStreamError, *sides, shards=shards)
        assert message == "source: key 1 after 6."


@pytest.mark.parametrize("limit", [None, 1])
@pytest.mark.parametrize("flush_rows", [1, 1000])
def test_rows_that_only_look_sorted_are_sorted_and_compared(limit, flush_rows, monkeypatch):
    """A first pass over rows out of order sees differences that are none: they count for no limit.

    What the first pass has written already must not stand before what the second one writes.
    """
    monkeypatch.setattr("airflow_delta_provider.core.rawcompare.FLUSH_ROWS", flush_rows)
    rows = [(str(number), "a") for number in range(20)]
    source = table(*rows[10:], *rows[:10], order_of=Order.HOPED, batch_rows=5)
    target = table(*rows[:19], batch_rows=5)
    members = {} if limit is None else {"limits": {"max_discrepancies": limit}}
    _, records = run(source, target, **members)
    assert [(record["category"], record["key"]) for record in records] == [("dropped", ["19"])]
    assert len(source.requests) == 2


def test_two_sides_that_only_look_sorted_are_each_sorted():
    """Each by itself, and only what needs it."""
    rows = [(str(number), "a") for number in range(20)]
    source = table(*rows[10:], *rows[:10], order_of=Order.HOPED, batch_rows=5)
    target = table(*rows[5:], *rows[:5], order_of=Order.HOPED, batch_rows=3)
    assert run(source, target)[0].records == 0
    source = table(*rows, order_of=Order.HOPED, batch_rows=5)
    assert run(source, table(*rows))[0].records == 0
    assert [request.ordered for request in source.requests] == [True]


def test_a_closed_stream_reaches_the_side():
    """The generator of the other side is closed when one fails: that cancels its query."""

    def fail(number: int) -> None:
        raise errors.SideReadError("gone")

    rows = [(str(number), "a") for number in range(500)]
    source, target = table(*rows, batch_rows=1), table(*rows, before_batch=fail)
    refused(errors.SideReadError, source, target)
    assert (source.opened, source.finished) == (1, 1)


class Counted(MemorySide):
    """A side whose batches are made as they are read, each over memory of its own whose end is noticed."""

    def _batches(self, request: Request) -> Iterator[pa.RecordBatch]:
        self.alive = 0
        self.peak = 0
        for number in range(60):
            start = number * 100
            payload = np.arange(start, start + 100, dtype=np.int64)
            self.alive += 1
            self.peak = max(self.peak, self.alive)
            weakref.finalize(payload, self._ended)
            array = pa.Array.from_buffers(pa.int64(), 100, [None, pa.py_buffer(payload)])
            columns = {"id": array, "v": pa.array(["a"] * 100)}
            yield pa.RecordBatch.from_arrays([columns[name] for name in request.columns], names=list(request.columns))

    def _ended(self) -> None:
        self.alive -= 1


def test_memory_holds_a_few_batches_of_each_side():
    """Two made ahead, one waiting, one or two in the comparison: of sixty."""
    source, target = Counted(TYPES, [], estimate=6000), Counted(TYPES, [], estimate=6000)
    outcome, _ = run(source, target)
    assert outcome.manifest["population"]["unchanged"] == 6000
    assert 2 <= source.peak <= 8
    assert 2 <= target.peak <= 8


def test_memory_holds_a_few_batches_where_one_side_is_far_ahead():
    """The side whose keys all lie behind waits."""
    source = Counted(TYPES, [], estimate=6000)
    rows = [(str(number), "a") for number in range(6000, 6100)]
    outcome, _ = run(source, MemorySide(TYPES, rows))
    assert shown(outcome) == {"added": 100, "dropped": 6000}
    assert source.peak <= 8


def test_columns_and_keys_of_any_name_and_size():
    """Emoji, quotes, blanks, a zero byte in names; a megabyte in a key."""
    names = ["id", 'a"b', "a'b", "\U0001f600", " ", "a\x00b", "e\u0301"]
    types = dict.fromkeys(names, TEXT)
    long = "x" * 1_000_000
    rows = [(long + str(number), *("v" for _ in names[1:])) for number in range(3)]
    other = [rows[0], (rows[1][0], *("w" for _ in names[1:]))]
    ids = set()
    for shards in (1, 2, 7):
        outcome, records = run(MemorySide(types, rows), MemorySide(types, other), shards=shards)
        ids.add(outcome.receipt.manifest)
        assert [record["category"] for record in records] == ["value_diverged", "dropped"]
        assert records[0]["columns"] == names[1:]
    assert len(ids) == 1


def test_keys_that_share_their_first_200_bytes_fall_into_one_shard():
    """A bound is cut at 200 bytes and still separates what it can."""
    types = typed(id="text", v="text")
    prefix = "p" * 300
    rows = [(prefix + str(number), "a") for number in range(9)]
    ids = set()
    for shards in (1, 2, 7):
        outcome, _ = run(MemorySide(types, rows), MemorySide(types, rows[1:]), shards=shards)
        ids.add(outcome.receipt.manifest)
        assert outcome.manifest["population"]["unchanged"] == 8
    assert len(ids) == 1


def test_a_thousand_columns():
    """Of which each may differ."""
    types = {"id": INT, **{f"c{number}": INT for number in range(1000)}}
    source = MemorySide(types, [("1", *["1"] * 1000), ("2", *["1"] * 1000), ("3", *["1"] * 1000)])
    target = MemorySide(types, [("1", *["1"] * 1000), ("2", *["2"] * 1000)])
    _, records = run(source, target)
    assert [len(record["source_value"]) for record in records] == [1000, 1000]
    assert len(records[0]["columns"]) == 1000


@pytest.mark.parametrize("shards", [1, 7])
@pytest.mark.parametrize(
    ("source", "target", "categories"),
    [
        ([], [], {}),
        ([("1", "a")], [], {"dropped": 1}),
        ([], [("1", "a")], {"added": 1}),
        ([("1", "a"), ("2", "a")], [("3", "a"), ("4", "a")], {"added": 2, "dropped": 2}),
        ([("1", "a"), ("2", "a")], [("1", "b"), ("2", "b")], {"value_diverged": 2}),
        ([("1", "a"), ("3", "a")], [("2", "a"), ("4", "a")], {"added": 2, "dropped": 2}),
    ],
)
@pytest.mark.parametrize("cost", list(RangeCost))
def test_empty_and_disjoint_tables(source, target, categories, shards, cost):
    """An empty side is a side."""
    outcome, _ = run(table(*source, cost=cost), table(*target, cost=cost), shards=shards)
    assert shown(outcome) == categories


def test_a_key_at_a_bound_belongs_to_the_upper_shard_on_both_sides():
    """Else it would be read twice, or not at all."""
    rows = [(str(number), "a") for number in range(10)]
    for exact in (True, False):
        sides = [table(*rows, exact=exact) for _ in range(2)]
        form = spec_form(key=["id"], shards={"bounds": [[7], [3], [3], [100]]})
        outcome = reconcile(parse_spec(form), MemoryStore(), opener(*sides))
        assert outcome.manifest["population"]["unchanged"] == 10
        asked = [(request.lower, request.upper) for request in sides[0].requests]
        three, seven, hundred = (encode_key([text], [INT]) for text in ("3", "7", "100"))
        assert asked == [(None, three), (three, seven), (seven, hundred), (hundred, None)]


@pytest.mark.parametrize(
    ("kind", "partner", "rows", "others", "categories"),
    [
        ("int", "int", [str(2**63)], [str(-(2**63))], {"added": 1, "dropped": 1}),
        ("int", "decimal", ["1", str(2**64)], ["1", str(2**64)], {}),
        ("int", "float64", ["9007199254740993"], ["9007199254740992"], {"added": 1, "dropped": 1}),
        ("decimal", "float64", ["0.1"], ["0.1"], {"added": 1, "dropped": 1}),
        ("decimal", "float64", ["0.5"], ["0.5"], {}),
        ("float32", "float64", ["0.1"], ["0.1"], {"added": 1, "dropped": 1}),
        ("float32", "float64", ["0.5", "NaN", "Infinity"], ["0.5", "NaN", "Infinity"], {}),
        ("float64", "float64", ["0", "NaN"], ["0", "NaN"], {}),
        ("text", "text", ["a", "a ", "A"], ["a", "a\x00", "A"], {"added": 1, "dropped": 1}),
    ],
)
def test_keys_are_equal_by_exact_value_and_by_nothing_else(kind, partner, rows, others, categories):
    """Keys of two number types meet in the type that holds both."""
    source = MemorySide(typed(id=kind), [(value,) for value in rows], batch_rows=1, mixed=True)
    target = MemorySide(typed(id=partner), [(value,) for value in others])
    for order in (Order.PROMISED, Order.NONE):
        source.order_of = target.order_of = order
        assert shown(run(source, target)[0]) == categories


@pytest.mark.parametrize(
    ("kind", "partner", "value", "other", "equal"),
    [
        ("int", "decimal", str(2**63), str(2**63), True),
        ("int", "decimal", "1", "1.0000000000000001", False),
        ("int", "float64", "9007199254740993", "9007199254740992", False),
        ("decimal", "float64", "0.1", "0.1", False),
        ("float32", "float64", "0.1", "0.1", False),
        ("float64", "float64", "NaN", "NaN", True),
        ("float64", "float64", "Infinity", "-Infinity", False),
        ("text", "text", "", None, False),
        ("text", "text", "a", "a ", False),
        ("text", "text", "é", "e\u0301", False),
        ("text", "text", {"wtf8": "ff"}, {"wtf8": "fe"}, False),
        ("text", "text", {"wtf8": "ff"}, {"wtf8": "ff"}, True),
        ("timestamp", "timestamp", "2024-01-01T00:00:00", "2024-01-01T00:00:00.000001", False),
        ("date", "date", "+010000-01-01", "+010000-01-01", True),
        ("bytes", "bytes", "00", "0000", False),
    ],
)
def test_values_are_equal_by_exact_value_and_by_nothing_else(kind, partner, value, other, equal):
    """A wrong "equal" is the worst thing that can be said."""
    source = MemorySide(typed(id="int", v=kind), [("1", value)])
    target = MemorySide(typed(id="int", v=partner), [("1", other)])
    assert run(source, target)[0].records == (0 if equal else 1)


@pytest.mark.parametrize(
    "kinds", [("date", "int"), ("date", "timestamp"), ("text", "int"), ("bool", "int"), ("uuid", "text")]
)
def test_families_are_not_compared_with_each_other(kinds):
    """Not even where a database would cast one into the other."""
    source, target = (MemorySide(typed(id="int", v=kind), []) for kind in kinds)
    message = refused(errors.SideIncomparableError, source, target)
    assert message.startswith(f"column 'v' is {kinds[0]} in the source and {kinds[1]} in the target; ")
    assert message.endswith(" would make them comparable.")


def test_null_components_match_null_components():
    """(1, NULL) is (1, NULL), and neither (NULL, 1) nor (1, "")."""
    types = typed(a="int", b="text", v="int")
    source = MemorySide(types, [("1", None, "5"), (None, "1", "5"), (None, None, "5"), ("1", "", "5")], batch_rows=1)
    target = MemorySide(types, [("1", None, "6"), (None, None, "5"), ("1", "x", "5")])
    for order in Order:
        source.order_of = target.order_of = order
        _, records = run(source, target, key=["a", "b"], keys={"nulls": "match"}, shards=3)
        assert [(record["category"], record["key"]) for record in records] == [
            ("dropped", [None, "1"]),
            ("value_diverged", ["1", None]),
            ("dropped", ["1", ""]),
            ("added", ["1", "x"]),
        ]


def test_a_side_that_is_both_source_and_target_is_equal_to_itself():
    """With every type and policy that could tell a value from itself: NaN, NULL, invalid text."""
    types = typed(id="float64", v="float64", w="text")
    side = MemorySide(types, [("NaN", "NaN", {"wtf8": "ff"}), (None, None, None), ("0", "NaN", "")])
    outcome, _ = run(side, side, keys={"nulls": "match"}, shards=2)
    assert outcome.manifest["population"]["unchanged"] == 3


@pytest.mark.parametrize(
    ("fact", "document"),
    [(1.5, "1.5"), (2**60, str(2**60)), ({"a": (1, None)}, [["a", [1, None]]]), (True, True), (b"x", "b'x'")],
)
def test_facts_of_a_side_fit_into_canonical_json(fact, document):
    """Whatever an engine calls its version."""
    assert plain(fact) == document


@pytest.mark.parametrize("order", list(Order))
@pytest.mark.parametrize("cost", list(RangeCost))
@pytest.mark.parametrize("ruled", [True, False])
def test_a_side_that_cannot_read_a_range_is_read_once_for_all_shards(order, cost, ruled):
    """Else 64 shards would read and sort the whole table 64 times."""
    types = typed(id="text", v="text")
    rows = [(f"K{number:02}", "a") for number in range(30)]
    source = MemorySide(types, rows, order_of=order, cost=cost)
    members = {"rules": {"id": [{"normalize": ["casefold"]}]}} if ruled else {}
    outcome, _ = run(source, MemorySide(types, rows), shards=5, **members)
    assert outcome.manifest["population"]["unchanged"] == 30
    once = ruled or cost is RangeCost.SCAN or order is Order.NONE
    assert len(source.requests) == (1 if once else len(outcome.sidecar["shards"]))
    assert len(outcome.sidecar["shards"]) == 5
