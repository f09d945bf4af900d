"""Sweeps through the engine: the worked example over a real table, and chains of random sweeps against a slow oracle."""

import io
import json
import os
import random
from dataclasses import replace

import pytest
from memory_side import MemorySide, typed
from sweep_oracle import SweepOracle, stored_lines, stored_records
from sweeping import SWEEP

from airflow_delta_provider.adapters.filters import parse_filter
from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.adapters.side import Order, RangeCost
from airflow_delta_provider.core import bulk_sweep, ids, packs
from airflow_delta_provider.core.findings import Findings, Stage
from airflow_delta_provider.core.keys import encode_key
from airflow_delta_provider.core.predecessor import load_generation, pack_reader
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store import blobs
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.core.types import LogicalType
from airflow_delta_provider.core.verify_generation import IndexedGeneration, verify_generation
from airflow_delta_provider.core.verify_store import StoreArtifacts, verify_published
from airflow_delta_provider.engine import opened as opened_module
from airflow_delta_provider.engine.sweep import sweep
from airflow_delta_provider.engine.sweep_open import open_sweep
from airflow_delta_provider.engine.sweep_plan import plan_sweep_ranges
from airflow_delta_provider.engine.sweep_shard import Packs, sweep_shard

SEEDS = range(int(os.environ.get("DELTA_SEEDS", "1")))
CHAIN = 50


def golden(name):
    return (SWEEP / name).read_bytes()


class StockView:
    """The table of the worked example as its contract sees it: prices are decimals, and ``status`` is no column.

    The example's schema names only what is compared, while its filter reads one column more; and DuckDB has no decimal
    that is long enough to be refused. So prices are text in the table, and this side says what they are.
    """

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    @property
    def columns(self):
        shown = [column for column in self.inner.columns if column.name != "status"]
        return tuple(replace(one, type=LogicalType("decimal")) if one.name == "price" else one for one in shown)


@pytest.fixture
def stock(tmp_path, monkeypatch):
    """A DuckDB table, a function that fills it, and a specification with the example's labels and versions."""
    import duckdb

    path = tmp_path / "stock.duckdb"

    def fill(rows, loaded):
        with duckdb.connect(str(path)) as connection:
            connection.execute(
                "create or replace table stock"
                " (sku varchar, qty integer, price varchar, loaded_at timestamp, status varchar)"
            )
            values = [(sku, qty, price, loaded, status) for sku, qty, price, status in rows]
            connection.executemany("insert into stock values (?, ?, ?, ?, ?)", values)

    def filters(spec, source, target, partner):
        return {"source": None, "target": parse_filter(spec.filter_target, "duckdb", target.inner.inner.columns)}

    monkeypatch.setattr(opened_module, "filters_of", filters)
    form = {
        "name": "stock",
        "schema_version": "stock@1",
        "contract_version": "stock-contract@1",
        "target": {"uri": f"duckdb:///{path}", "table": "stock", "label": "wh:shop.stock"},
        "key": ["sku"],
        "keys": {"duplicates": "set_aside"},
        "columns": {"exclude": ["loaded_at"]},
        "filter": {"target": "status <> 'draft'"},
    }
    return fill, form


FIRST = [
    ("A1", 5, "1.5", "ready"),
    ("B2", 7, "2", "ready"),
    ("C3", 1, "9.99", "ready"),
    ("D4", 0, "3.1", "ready"),
    ("E5", 12, "4", "ready"),
    ("F6", 3, "0.5", "ready"),
]
SECOND = [
    ("A1", 5, "1.5", "ready"),
    ("B2", 8, "2", "ready"),
    ("D4", 0, "9" * 2001, "ready"),
    ("E5", 12, "4", "draft"),
    ("F6", 3, "0.5", "ready"),
    ("G7", 1, "1", "ready"),
]


def open_stock(spec):
    return StockView(open_side(spec))


def check_published(store, outcome, stem, index="packs"):
    """Everything that a sweep names is in the store, to the byte."""
    document = json.loads(golden(f"{stem}.manifest.json"))
    assert outcome.receipt.manifest == ids.sha256_hex(golden(f"{stem}.manifest.json"))
    assert outcome.receipt.generation == ids.sha256_hex(golden(f"{stem}.generation.json"))
    for name, digest in (
        (f"{stem}.manifest.json", outcome.receipt.manifest),
        (f"{stem}.generation.json", outcome.receipt.generation),
        (f"{stem}.body.jsonl", document["body"]["sha256"]),
        *((f"{part}.json", document[part]["sha256"]) for part in ("schema", "contract", "structure", "summary")),
    ):
        assert blobs.get_blob(store, digest) == golden(name), name
    generation = load_generation(store, outcome.receipt.pair_id, outcome.receipt.generation)
    assert packs.index_bytes(generation.rows) == golden(f"{stem}.{index}.jsonl")


def test_the_worked_sweeps_come_out_byte_for_byte(stock):
    """Manifest, generation, packs and index of docs/format.md, read from a table."""
    fill, form = stock
    store = MemoryStore()
    fill(FIRST, "2024-01-01")
    check_published(store, sweep(parse_spec(form, sweep=True), store, open_stock), "sweep0")
    fill(SECOND, "2024-01-02")
    check_published(store, sweep(parse_spec(form, sweep=True), store, open_stock), "sweep1")


def test_the_worked_sweep_in_two_shards_gives_the_same_generation(stock):
    """Cut at "D": the two packs stay as they are, manifest and header are those of one shard."""
    fill, form = stock
    store = MemoryStore()
    fill(FIRST, "2024-01-01")
    sweep(parse_spec(form, sweep=True), store, open_stock)
    fill(SECOND, "2024-01-02")
    cut = parse_spec({**form, "shards": {"bounds": [["D"]]}}, sweep=True)
    with open_sweep(cut, store, open_stock) as opened:
        for number, key_range in enumerate(plan_sweep_ranges(opened)):
            put = []
            body = io.BytesIO()
            shard = sweep_shard(opened, key_range, body, Packs(pack_reader(store), put.append))
            stem = f"sweep1.shard{number}"
            assert shard.header == golden(f"{stem}.generation.json")
            assert shard.manifest == golden(f"{stem}.manifest.json")
            assert body.getvalue() == golden(f"{stem}.body.jsonl")
            assert shard.index == golden(f"{stem}.packs.jsonl")
            assert put == [golden(f"{stem}.pack0.jsonl")]
    check_published(store, sweep(cut, store, open_stock), "sweep1", "merged.packs")


KINDS = typed(k="int", v="text", w="decimal", f="text")
FORM = {
    "name": "chain",
    "target": {"path": "twin"},
    "key": ["k"],
    "keys": {"nulls": "set_aside", "duplicates": "set_aside"},
    "columns": {"exclude": ["f"]},
    "filter": "f <> 'draft'",
    "rules": {"v": [{"read_as": {"type": "int"}}], "w": [{"null_equals": ["7"]}, {"round": {"places": 1}}]},
}
ROUNDED = {"0.25": "0.2", "7": None, "1": "1", "-3": "-3", "0.35": "0.4", None: None}
INT_KEY = [LogicalType("int")]


def random_table(rng):
    """Return rows of the twin, what the oracle is to see of them, and how many have no key."""
    rows, seen, nulls = [], [], 0
    for key in range(-10, 25):
        roll = rng.random()
        if roll < 0.15:
            continue
        for _ in range(2 if roll > 0.95 else 1):
            v = rng.choice(["1", "2", "x"]) if roll > 0.4 else "1"
            w = rng.choice(list(ROUNDED)) if roll > 0.6 else "1"
            f = rng.choice(["a", "draft", None]) if roll > 0.8 else "a"
            rows.append((str(key), v, w, f))
            seen.append(([str(key)], [v, ROUNDED[w]], f == "a", "DELTA_VALUE_TEXT" if v == "x" else None))
    for _ in range(rng.choice([0, 0, 1, 3])):
        rows.append((None, "1", "1", "a"))
        nulls += 1
    rng.shuffle(rows)
    return rows, seen, nulls


def random_plan(rng):
    """Return members of a specification that only say how the work is cut, and a side's habits."""
    bounds = sorted({rng.randrange(-12, 27) for _ in range(rng.choice([0, 1, 3]))})
    habits = {
        "order_of": rng.choice(list(Order)),
        "cost": rng.choice(list(RangeCost)),
        "batch_rows": rng.choice([9, 17, 1000]),
        "exact": rng.random() < 0.5,
        "mixed": rng.random() < 0.5,
    }
    return {"shards": {"bounds": [[str(bound)] for bound in bounds]}} if bounds else {}, habits


def check_generation(store, outcome, before):
    """Verify a generation and its manifest as an auditor does."""
    header_id, pair_id = outcome.receipt.generation, outcome.receipt.pair_id
    artifacts = StoreArtifacts(store, [], Findings(Stage.FETCH))
    indexed = []
    for one in (header_id, before):
        found = None if one is None else load_generation(store, pair_id, one)
        indexed.append(None if found is None else IndexedGeneration(one, packs.index_bytes(found.rows)))
    assert verify_generation(indexed[0], indexed[1], outcome.manifest, artifacts)[1] == []
    check, _ = verify_published(store, outcome.receipt.manifest)
    assert check.findings == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_chain_of_random_sweeps_keeps_every_invariant_under_any_plan(monkeypatch, seed):
    """Fifty sweeps of a table that changes at random; each twice, under two plans, must agree with the oracle."""
    rng = random.Random(seed)
    monkeypatch.setattr(packs, "PACK_ENTRIES_MAX", rng.choice([1, 5, 16, 16384]))
    monkeypatch.setattr(bulk_sweep, "WINDOW_KEYS", rng.choice([1, 3, 16, 1024]))
    oracle, stores, before = SweepOracle("1", INT_KEY), (MemoryStore(), MemoryStore()), None
    for number in range(CHAIN):
        rows, seen, nulls = random_table(rng)
        oracle.sweep(seen, nulls)
        found = []
        for store in stores:
            plan, habits = random_plan(rng)
            spec = parse_spec({**FORM, **plan}, sweep=True)
            found.append(sweep(spec, store, lambda _, r=rows, h=habits: MemorySide(KINDS, r, **h)))
        first, second = found
        assert (first.receipt.manifest, first.receipt.generation) == (
            second.receipt.manifest,
            second.receipt.generation,
        )
        assert first.generation["generation"] == number
        assert first.generation["sweep"] == oracle.counts
        assert stored_records(stores[0], first.manifest) == oracle.records
        for store in stores:
            assert stored_lines(store, first.receipt.pair_id, first.receipt.generation) == oracle.lines()
        check_generation(stores[1], second, before)
        before = first.receipt.generation


def test_a_returning_key_continues_its_version():
    """C3 is gone, comes back changed, then goes and comes back as it was."""
    store, side = MemoryStore(), MemorySide(typed(k="int", v="text"), [])
    form = {"name": "back", "target": {"path": "twin"}, "key": ["k"]}
    oracle = SweepOracle("1", INT_KEY)
    for rows in ([("1", "a")], [], [("1", "b")], [], [("1", "b")]):
        side.rows = rows
        outcome = sweep(parse_spec(form, sweep=True), store, lambda _: side)
        oracle.sweep([([key], [value], True, None) for key, value in rows])
        assert stored_lines(store, outcome.receipt.pair_id, outcome.receipt.generation) == oracle.lines()
    assert oracle.entries[encode_key(["1"], INT_KEY)]["version"] == 2
