"""What a sweep digests and records: details, sensitive columns, rules, keys under rules, series that change, limits."""

import hashlib
import hmac
import json

import pytest
from memory_side import MemorySide, typed
from sweep_oracle import SweepOracle, kinds, lp, stored_lines, stored_records

from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.adapters.side import Order
from airflow_delta_provider.core import packs
from airflow_delta_provider.core.errors import (
    ContractError,
    DetailError,
    DiskLimitError,
    GenerationChainError,
    GenerationContextError,
    HmacKeyError,
    KeyDuplicateError,
    KeyNullError,
    RecordLimitError,
    SpecFieldError,
    SpecValueError,
    UnsortedStreamError,
    WallLimitError,
)
from airflow_delta_provider.core.recorded import HmacKey
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.core.store.local import LocalStore
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.core.types import LogicalType
from airflow_delta_provider.core.verify_store import verify_published
from airflow_delta_provider.engine import sweep as sweep_module
from airflow_delta_provider.engine.sweep import sweep
from airflow_delta_provider.engine.sweep_changes import changed_keys
from airflow_delta_provider.engine.sweep_open import open_sweep
from airflow_delta_provider.engine.sweep_plan import plan_sweep_ranges

KINDS = typed(k="int", v="text", w="text")
ROWS = [("1", "a", "x"), ("2", "b", "y")]
KEY = HmacKey("k1", b"secret")


def run(store, rows, form=None, kinds_of=KINDS, side=None, **options):
    spec = parse_spec({"name": "rows", "target": {"path": "twin"}, "key": ["k"], **(form or {})}, sweep=True)
    twin = side or MemorySide(kinds_of, rows)
    return sweep(spec, store, lambda _: twin, **options)


def keyed(column, value):
    preimage = b"delta-value/v1\x00" + lp(column.encode()) + lp(json.dumps(value).encode())
    return {"hmac": hmac.new(b"secret", preimage, hashlib.sha256).hexdigest(), "key": "k1"}


@pytest.mark.parametrize(
    ("form", "digested", "recorded"),
    [
        ({"sensitive": ["w"]}, ["a", keyed("w", "x")], ["a", keyed("w", "x")]),
        ({"detail": "digests"}, [keyed("v", "a"), keyed("w", "x")], [keyed("v", "a"), keyed("w", "x")]),
        ({"detail": "keys"}, [keyed("v", "a"), keyed("w", "x")], [{"omitted": True}, {"omitted": True}]),
        (
            {"detail": "keys", "sensitive": ["w"]},
            [keyed("v", "a"), keyed("w", "x")],
            [{"omitted": True}, keyed("w", "x")],
        ),
    ],
    ids=["sensitive", "digests", "keys", "keys and sensitive"],
)
def test_rows_are_digested_in_recorded_form(form, digested, recorded):
    """A verifier recomputes the digest from a record, and nobody guesses a sensitive value from it."""
    store = MemoryStore()
    outcome = run(store, ROWS[:1], form, hmac_key=KEY)
    oracle = SweepOracle("1", [LogicalType("int")])
    (entry,) = stored_lines(store, outcome.receipt.pair_id, outcome.receipt.generation)
    assert entry["head"]["row_digest"] == oracle.digest(b"\x20\x21\x01", digested)
    assert stored_records(store, outcome.manifest)[0]["target_value"] == recorded
    assert outcome.generation["hmac_key"] == "k1"
    assert verify_published(store, outcome.receipt.manifest)[0].findings == []


def test_under_counts_no_body_is_published_and_changes_are_still_found():
    """The manifest counts; the packs remember."""
    store = MemoryStore()
    run(store, ROWS, {"detail": "counts"}, hmac_key=KEY)
    outcome = run(store, [("1", "a", "x"), ("2", "b", "z")], {"detail": "counts"}, hmac_key=KEY)
    assert outcome.generation["sweep"]["changed"] == 1
    with pytest.raises(DetailError, match=r"\[DELTA_DETAIL\]"):
        list(changed_keys(store, outcome.receipt.generation))


def test_without_a_key_nothing_keyed_is_swept():
    """Before the side is opened."""
    with pytest.raises(HmacKeyError, match=r"\[DELTA_HMAC_KEY\]"):
        run(MemoryStore(), ROWS, {"sensitive": ["w"]})


def test_another_hmac_key_starts_a_series():
    """Digests under two keys cannot be compared."""
    store = MemoryStore()
    run(store, ROWS, {"sensitive": ["w"]}, hmac_key=KEY)
    outcome = run(store, ROWS, {"sensitive": ["w"]}, hmac_key=HmacKey("k2", b"other"))
    assert (outcome.generation["generation"], outcome.generation["hmac_key"]) == (0, "k2")


def test_rules_on_keys_keep_the_raw_key_in_the_record():
    """The key of the entry is the one after the rules; a consumer finds the row by the one that the side holds."""
    store = MemoryStore()
    form = {"key": ["w"], "rules": {"w": [{"normalize": ["casefold"]}]}, "columns": {"exclude": ["k"]}}
    outcome = run(store, [("1", "a", "X")], form)
    (record,) = stored_records(store, outcome.manifest)
    assert (record["key"], record["source_key"], record["target_key"]) == (["x"], None, ["X"])
    assert run(store, [("1", "a", "x")], form).records == 0
    assert verify_published(store, outcome.receipt.manifest)[0].findings == []


def test_each_refused_row_fails_alone_with_its_code():
    """Many refused rows in one batch, leave the others as they are."""
    store, kinds_of = MemoryStore(), typed(k="int", v="text", w="decimal")
    rows = [(str(number), "x" if number % 7 == 0 else "1", "1") for number in range(200)]
    outcome = run(store, rows, {"rules": {"v": [{"read_as": {"type": "decimal"}}]}}, kinds_of)
    entries = stored_lines(store, outcome.receipt.pair_id, outcome.receipt.generation)
    reasons = {int(entry["key"][0]): entry["reason"] for entry in entries if entry["disposition"] == "failed"}
    assert reasons == dict.fromkeys(range(0, 200, 7), "DELTA_VALUE_TEXT")
    assert (outcome.generation["sweep"]["failed"], outcome.generation["sweep"]["new"]) == (29, 171)


def test_a_time_that_its_zone_does_not_have_fails_its_row():
    """The code of the entry says that the type cannot hold it; zones have no code of their own in entries."""
    store = MemoryStore()
    rows = [("1", "2024-03-31T02:30:00", "x"), ("2", "2024-03-31T12:30:00", "y")]
    form = {"rules": {"v": [{"read_as": {"type": "timestamp_tz", "zone": "Europe/Rome"}}]}}
    outcome = run(store, rows, form)
    entries = stored_lines(store, outcome.receipt.pair_id, outcome.receipt.generation)
    assert [entry["reason"] for entry in entries] == ["DELTA_VALUE_RANGE", None]


@pytest.mark.parametrize("name", ["tolerance", "numeric_text", "date_as_midnight"])
def test_rules_that_need_two_values_are_refused(name):
    """A sweep has one value and a digest."""
    parameters = {"tolerance": {"abs": "1"}, "numeric_text": {"abs": "1"}, "date_as_midnight": {}}
    with pytest.raises(ContractError, match=rf"\[DELTA_CONTRACT\] rule {name} .* needs two values"):
        run(MemoryStore(), ROWS, {"rules": {"v": [{name: parameters[name]}]}})


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ({"columns": {"map": {"v": "w"}}}, SpecFieldError),
        ({"filter": {"source": "k > 0"}}, SpecFieldError),
        ({"recheck": {"attempts": 1}}, SpecFieldError),
        ({"strategy": "fast"}, SpecValueError),
        ({"rules": {"v": [{"normalize": {"steps": ["nfc"], "side": "source"}}]}}, ContractError),
        ({"source": {"path": "twin"}}, SpecFieldError),
    ],
    ids=["map", "filter of a source", "recheck", "strategy", "rule for a source", "source"],
)
def test_what_needs_two_sides_is_refused(form, error):
    """It would have no effect, and nobody would know."""
    with pytest.raises(error):
        run(MemoryStore(), ROWS, form)


def test_a_column_that_came_since_is_a_finding_and_not_swept():
    """The schema of a series is that of its first sweep."""
    store = MemoryStore()
    run(store, ROWS)
    outcome = run(store, [(*row, "n") for row in ROWS], kinds_of={**KINDS, "new": LogicalType("text")})
    assert outcome.records == 0
    findings = json.loads(blobs.get_blob(store, outcome.manifest["structure"]["sha256"]))["findings"]
    assert findings == [{"column": "new", "kind": "column_added", "source_type": None, "target_type": "text"}]


def test_a_column_of_another_order_or_wider_type_is_the_same_column():
    """Row digests go by the schema of the series; a type that changed is a finding."""
    store, now = MemoryStore(), typed(w="text", v="int", k="int")
    run(store, [("1", "1.5", "x"), ("2", "2", "y")], kinds_of=typed(k="int", v="decimal", w="text"))
    outcome = run(store, [("x", "1", "1"), ("y", "2", "2")], kinds_of=now)
    assert (outcome.generation["sweep"]["changed"], outcome.generation["sweep"]["unchanged"]) == (1, 1)
    findings = json.loads(blobs.get_blob(store, outcome.manifest["structure"]["sha256"]))["findings"]
    assert findings == [{"column": "v", "kind": "type_changed", "source_type": "decimal", "target_type": "int"}]


@pytest.mark.parametrize(
    ("kinds_of", "rows"),
    [(typed(k="int", v="text"), [("1", "a")]), (typed(k="int", v="text", w="int"), [("1", "a", "1")])],
    ids=["gone", "of another type"],
)
def test_a_column_of_the_series_that_is_gone_or_another_is_refused(kinds_of, rows):
    """Its rows could not be digested as before; a new schema_version starts anew."""
    store = MemoryStore()
    run(store, ROWS)
    with pytest.raises(
        GenerationContextError, match=r"\[DELTA_GENERATION_CONTEXT\] .*new schema|Another schema_version"
    ):
        run(store, rows, kinds_of=kinds_of)
    assert run(store, rows, {"schema_version": "2"}, kinds_of).generation["generation"] == 0


def test_repeated_keys_are_refused_with_their_count():
    """Whatever the filter says of their rows: a key has one entry."""
    rows = [("1", "a", "x"), ("1", "b", "y"), ("1", "c", "z")]
    with pytest.raises(KeyDuplicateError, match=r"\[DELTA_KEY_DUPLICATE\] target: key 1 occurs in 3 rows"):
        run(MemoryStore(), rows, {"filter": "v = 'a'"})


def test_null_keys_are_refused_with_their_count():
    """NULLs are reported before repeated keys."""
    rows = [("1", "a", "x"), ("1", "b", "y"), (None, "a", "x"), (None, "b", "y")]
    with pytest.raises(KeyNullError, match=r"\[DELTA_KEY_NULL\] target: key column 'k' is NULL in 2 rows"):
        run(MemoryStore(), rows)


def test_null_keys_match_where_the_contract_says_so():
    """A NULL is then a key like any other."""
    store = MemoryStore()
    outcome = run(store, [(None, "a", "x"), ("1", "b", "y")], {"keys": {"nulls": "match"}})
    entries = stored_lines(store, outcome.receipt.pair_id, outcome.receipt.generation)
    assert [entry["key"] for entry in entries] == [[None], ["1"]]


@pytest.mark.parametrize(
    ("limits", "error"),
    [
        ({"max_discrepancies": 1}, RecordLimitError),
        ({"max_bytes": 600}, DiskLimitError),
        ({"max_seconds": 1}, WallLimitError),
    ],
    ids=["records", "bytes", "seconds"],
)
@pytest.mark.parametrize("shards", [None, 2])
def test_a_limit_refuses_before_anything_is_published(monkeypatch, limits, error, shards):
    """Nothing is logged, no slot is claimed, and the next sweep starts from the same generation."""
    store = MemoryStore()
    clock = iter(range(0, 1000, 2))
    if error is WallLimitError:
        monkeypatch.setattr(sweep_module.time, "monotonic", lambda: next(clock))
    with pytest.raises(error, match=rf"\[{error.code}\]"):
        run(store, ROWS, {"limits": limits}, shards=shards)
    assert not [path for path in store.list() if path.startswith("pairs/")]


def test_rows_that_only_look_sorted_are_sorted_here():
    """The delta body and the counts start anew with the second read."""
    store = MemoryStore()
    side = MemorySide(KINDS, ROWS[::-1], order_of=Order.HOPED, batch_rows=1)
    outcome = run(store, [], side=side)
    assert outcome.generation["sweep"]["new"] == 2
    assert len(side.requests) == 2


def test_a_side_that_breaks_its_promise_of_order_is_refused():
    """No verdict, not even a partial one."""

    class Liar(MemorySide):
        def order(self, key, key_types):
            return Order.PROMISED

    side = Liar(KINDS, ROWS[::-1], order_of=Order.HOPED, batch_rows=1)
    with pytest.raises(UnsortedStreamError, match=r"\[DELTA_INPUT_ORDER\] target: key 1 after 2"):
        run(MemoryStore(), [], side=side)


class CountingStore(MemoryStore):
    """Counts the reads of each path."""

    def __init__(self):
        super().__init__()
        self.reads = {}

    def read(self, path, limit_bytes=2**26):
        self.reads[path] = self.reads.get(path, 0) + 1
        return super().read(path, limit_bytes)


def test_every_pack_of_the_predecessor_is_read_exactly_once(monkeypatch):
    """In shards too: bounds are moved to where packs begin. One pack is held at a time."""
    monkeypatch.setattr(packs, "PACK_ENTRIES_MAX", 7)
    store = CountingStore()
    rows = [(str(number), "a", "b") for number in range(300)]
    first = run(store, rows)
    spec = parse_spec({"name": "rows", "target": {"path": "twin"}, "key": ["k"]}, sweep=True)
    with open_sweep(spec, store, lambda _: MemorySide(KINDS, rows)) as opened:
        digests = [row.sha256 for row in opened.predecessor.rows]
        firsts = {row.first for row in opened.predecessor.rows}
        ranges = plan_sweep_ranges(opened, count=5)
    assert len(ranges) == 5
    assert {one.lower for one in ranges[1:]} <= firsts
    store.reads.clear()
    outcome = run(store, [(key, "a", "c") for key, _, _ in rows], shards=5)
    assert outcome.generation["predecessor"] == first.receipt.generation
    assert outcome.generation["sweep"]["changed"] == 300
    read = {digest: sum(count for path, count in store.reads.items() if path.endswith(digest)) for digest in digests}
    assert read == dict.fromkeys(digests, 1)


def test_changed_keys_come_in_key_order_and_once():
    """Over one sweep, and over all since the one that a consumer has processed."""
    store = MemoryStore()
    base = [(str(number), "a", "x") for number in range(6)]
    first = run(store, base)
    second = run(store, [("0", "b", "x"), *base[2:], ("9", "n", "x")])
    third = run(store, [("0", "c", "x"), ("1", "a", "x"), *base[3:], ("9", "n", "x")])

    def found(**options):
        changes = changed_keys(store, third.receipt.generation, **options)
        return [(one.key[0], one.category, one.row) for one in changes]

    assert found() == [("0", "value_diverged", ["c", "x"]), ("1", "added", ["a", "x"])]
    since = found(since=first.receipt.generation, categories=("added", "value_diverged", "dropped"))
    assert since == [
        ("0", "value_diverged", ["c", "x"]),
        ("1", "added", ["a", "x"]),
        ("2", "dropped", None),
        ("9", "added", ["n", "x"]),
    ]
    assert found(since=second.receipt.generation) == found()
    with pytest.raises(GenerationChainError, match="is no ancestor"):
        found(since="0" * 64)


def test_worker_processes_give_the_same_bytes(tmp_path, monkeypatch):
    """Over a real database and a store in a folder, which every worker opens by itself."""
    import sqlite3

    monkeypatch.setattr(sweep_module, "WORKER_ROWS_MIN", 10)
    with sqlite3.connect(tmp_path / "f.db") as connection:
        connection.execute("create table t(k integer primary key, v text)")
        connection.executemany("insert into t values (?, ?)", [(number, f"v{number}") for number in range(500)])
    form = {"name": "rows", "target": {"uri": f"sqlite:///{tmp_path}/f.db", "table": "t", "label": "t"}, "key": ["k"]}
    spec = parse_spec(form, sweep=True)
    found = []
    for name, options in (("one", {}), ("two", {"shards": 3, "workers": 2})):
        store = LocalStore(tmp_path / name)
        outcomes = [sweep(spec, store, open_side, **options) for _ in range(2)]
        found.append([one.receipt.generation for one in outcomes])
        assert outcomes[1].generation["sweep"]["unchanged"] == 500
        assert kinds(store, outcomes[0].receipt.pair_id) == ["sidecar", "manifest", "generation"] * 2
    assert outcomes[0].sidecar["workers"] == 2
    assert found[0] == found[1]
