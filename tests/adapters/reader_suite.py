"""The conformance suite of readers: what every implementation of ``adapters.side.Side`` must do, engine or file.

An implementation's test file makes a class of ``ReaderSuite`` and says how to build its tables::

    class TestSqlite(ReaderSuite):
        kinds = ("int", "text")

        @pytest.fixture
        def build(self, tmp_path): ...
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from airflow_delta_provider.adapters.filters import parse_filter
from airflow_delta_provider.adapters.side import KEEP_COLUMN, Order, Request, Side
from airflow_delta_provider.core.errors import DeltaError, SideMissingError
from airflow_delta_provider.core.keys import encode_key
from airflow_delta_provider.core.values import canonical_values

Row = tuple[Any, ...]
Build = Callable[..., Side]
"""``build(columns, rows, key=(), table="readings")``: columns are (name, kind), rows hold canonical values (S2)."""

WALL = ["1969-12-31T23:59:59.999999", "1970-01-01T00:00:00", "2024-02-29T12:00:00.5", "9999-12-31T23:59:59"]
SAMPLES: dict[str, list[Any]] = {
    "bool": [True, False, None],
    "int": ["0", "-1", "9007199254740993", "9223372036854775807", "-9223372036854775808", None],
    "decimal": ["0", "-0.0001", "12345678901234567890.1234", "1.1", None],
    "float32": ["0", "0.1", "-3.4028235e+38", "1.5", None],
    "float64": ["0", "0.1", "-1.7976931348623157e+308", "5e-324", "1e+21", None],
    "text": ["", " ", "a", "a ", "A", "é", "e\u0301", "\uffff", "\U00010000", "it's", "100%", "a;b", ":x", "\\", None],
    "bytes": ["", "00", "00ff", "ff", "6162", None],
    "uuid": ["00000000-0000-0000-0000-000000000000", "7fffffff-0000-0000-0000-0000000000ff",
             "80000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", None],
    "date": ["0001-01-01", "1969-12-31", "1970-01-01", "2024-02-29", "9999-12-31", None],
    "time": ["00:00:00", "12:30:00.000001", "23:59:59.999999", None],
    "timestamp": [*WALL, None],
    "timestamp_tz": [*(text + "Z" for text in WALL), None],
    "json_text": ['{"a": 1}', None],
}  # fmt: skip
"""Values of each kind that an engine easily bends; the keys among them are in no order."""

HOSTILE = [
    "select", "a b", "a.b", 'say "hi"', "it's", "semi;colon", "per%cent", "c0", "back\\slash", "ключ",
    "\U0001f600", "-- x", "Order", "order", "q?", "x:y", "delta_side", "rowid2", "a`b", "[x]",
]  # fmt: skip
"""Names that break a statement which does not quote; with ``long_names`` also one of 63 and one of 100 characters."""


def values_of(side: Side, batches: Iterable[pa.RecordBatch], names: tuple[str, ...]) -> list[Row]:
    """Return the canonical values of all rows that a read delivered, in the order of delivery."""
    types = {column.name: column.type for column in side.columns}
    rows: list[Row] = []
    for batch in batches:
        columns = [canonical_values(batch.column(name), types[name], types[name]) for name in names]
        rows += list(zip(*columns, strict=True))
    return rows


def key_bytes(side: Side, rows: Iterable[Row], key: tuple[str, ...]) -> list[bytes]:
    """Return the key bytes of rows that hold the key columns alone."""
    types = {column.name: column.type for column in side.columns}
    return [encode_key(row, [types[name] for name in key]) for row in rows]


class ReaderSuite:
    """Checks for one implementation; attributes say what its engine can hold."""

    kinds: tuple[str, ...] = ("int", "float64", "text", "bytes")
    """Logical kinds that it stores as such."""
    key_kinds: tuple[str, ...] = ("int", "text")
    ordered: bool = True
    """True where it promises canonical order for every kind in ``key_kinds``."""
    nul_in_text: bool = True
    long_names: bool = True
    case_in_names: bool = True
    """True where two columns may differ by case alone."""
    excluded_names: tuple[str, ...] = ()
    samples: dict[str, list[Any]] = {}  # noqa: RUF012
    """Values in place of SAMPLES, for a kind that the engine holds in part."""
    filter_dialect: str = "duckdb"

    @pytest.fixture
    def build(self) -> Build:
        """Build a table and return the side that reads it; the suite closes it."""
        pytest.fail("An implementation brings its own.")

    @pytest.fixture
    def absent(self) -> Side:
        """A side whose table or file does not exist."""
        pytest.fail("An implementation brings its own.")

    @pytest.fixture
    def opened(self, build: Build) -> Iterator[Build]:
        """``build``, with every side closed at the end, twice."""
        sides: list[Side] = []

        def make(*args: Any, **kwargs: Any) -> Side:
            side = resolved(build(*args, **kwargs), args[0])
            sides.append(side)
            return side

        yield make
        for side in sides:
            side.close()
            side.close()

    def values(self, kind: str) -> list[Any]:
        """Return the sample values of a kind that this engine can hold."""
        found = self.samples.get(kind, SAMPLES[kind])
        return [*found[:-1], "nul\x00nul", None] if kind == "text" and self.nul_in_text else found

    def test_every_kind_comes_back_with_its_exact_value(self, opened: Build) -> None:
        """A reader that bends one value makes a difference that is none, or hides one."""
        for kind in self.kinds:
            values = self.values(kind)
            rows = [(str(at), value) for at, value in enumerate(values)]
            side = opened([("id", "int"), ("v", kind)], rows, table=f"t_{kind}")
            types = {column.name: column.type for column in side.columns}
            assert types["v"].kind == kind
            read = values_of(side, side.read(Request(("id", "v"))), ("id", "v"))
            assert sorted(read, key=lambda row: int(row[0])) == rows

    def test_rows_come_in_the_order_of_canonical_keys(self, opened: Build) -> None:
        """The merge trusts this order; a collation's order would miscount. NULL is first."""
        for kind in self.key_kinds if self.ordered else ():
            values = list(self.values(kind))
            random.Random(7).shuffle(values)
            side = opened([("k", kind), ("n", "int")], [(value, str(at)) for at, value in enumerate(values)])
            types = (side.columns[0].type,)
            assert side.order(("k",), types) is Order.PROMISED
            request = Request(("k",), ("k",), types, ordered=True)
            keys = key_bytes(side, values_of(side, side.read(request), ("k",)), ("k",))
            assert keys == sorted(key_bytes(side, [(value,) for value in values], ("k",)))

    def test_a_range_loses_no_row_whatever_its_bounds(self, opened: Build) -> None:
        """A shard's bound may be any bytes: rows between two of them may never fall out of both shards."""
        for kind in self.key_kinds:
            values = self.values(kind)
            side = opened([("k", kind), ("n", "int")], [(value, str(at)) for at, value in enumerate(values)])
            self._check_ranges(side, ("k",), [(value,) for value in values])

    def test_a_range_of_a_composite_key_loses_no_row(self, opened: Build) -> None:
        """Later key columns matter only where the earlier ones are equal, NULL included."""
        first, second = self.key_kinds[0], self.key_kinds[-1]
        rows = [(a, b) for a in [*self.values(first)[:4], None] for b in [*self.values(second)[:4], None]]
        side = opened([("k1", first), ("k2", second)], rows)
        self._check_ranges(side, ("k1", "k2"), rows)

    def _check_ranges(self, side: Side, key: tuple[str, ...], rows: list[Row]) -> None:
        types = tuple(column.type for name in key for column in side.columns if column.name == name)
        keys = sorted(key_bytes(side, rows, key))
        for lower, upper in bounds(keys):
            request = Request(key, key, types, lower, upper, ordered=side.order(key, types) is not Order.NONE)
            read = key_bytes(side, values_of(side, side.read(request), key), key)
            inside = [one for one in read if (lower is None or lower <= one) and (upper is None or one < upper)]
            wanted = [one for one in keys if (lower is None or lower <= one) and (upper is None or one < upper)]
            assert sorted(inside) == wanted, (key, lower, upper)
            if request.ordered:
                assert read == sorted(read)

    def test_a_key_text_that_looks_like_sql_is_only_a_value(self, opened: Build) -> None:
        """Bounds come from data; one that closes a quote must change nothing but the range."""
        if "text" not in self.key_kinds:
            return
        rows = [("a",), ("x' OR 1=1 --",), ("x'); DROP TABLE readings; --",), ("%s ? :p $1 {}",), ("zz",)]
        side = opened([("k", "text")], rows)
        self._check_ranges(side, ("k",), rows)

    def test_hostile_names_are_only_names(self, opened: Build) -> None:
        """Any identifier is a column: keys, values and filters find it, and none is run."""
        names = [name for name in HOSTILE if name not in self.excluded_names]
        if not self.case_in_names:
            names = list({name.lower(): name for name in names}.values())
        names += ["n" * 63, "m" * 100] if self.long_names else ["n" * 60]
        columns = [(name, "int") for name in names]
        rows = [tuple(str(at + row) for at in range(len(names))) for row in range(3)]
        side = opened(columns, rows)
        assert [column.name for column in side.columns] == names
        assert sorted(values_of(side, side.read(Request(tuple(names))), tuple(names))) == sorted(rows)
        for name in names:
            types = tuple(column.type for column in side.columns if column.name == name)
            quote = "`" if self.filter_dialect == "mysql" else '"'
            text = f"{quote}{name.replace(quote, quote * 2)}{quote} >= 0"
            found = parse_filter(text, self.filter_dialect, side.columns)
            ordered = side.order((name,), types) is not Order.NONE
            request = Request((name,), (name,), types, encode_key(["0"], types), None, found, ordered)
            batches = list(side.read(request))
            assert sum(batch.num_rows for batch in batches) == 3
            assert all(all(batch.column(KEEP_COLUMN).to_pylist()) for batch in batches)

    def test_a_filter_marks_rows_and_drops_none(self, opened: Build) -> None:
        """Rows that the filter leaves out are counted, so they must arrive; NULL is not true."""
        side = opened([("id", "int"), ("s", "text")], [("1", "a"), ("2", "A"), ("3", None), ("4", "a ")])
        found = parse_filter("s = 'a' AND id < 5", self.filter_dialect, side.columns)
        marks = {}
        for batch in side.read(Request(("id",), filter=found)):
            for number, keep in zip(batch.column("id").to_pylist(), batch.column(KEEP_COLUMN).to_pylist(), strict=True):
                marks[int(number)] = bool(keep)
        assert marks == {1: True, 2: False, 3: False, 4: False}

    def test_an_empty_table_has_columns_and_no_rows(self, opened: Build) -> None:
        """An empty side is a result, not a failure."""
        side = opened([("id", "int"), ("s", "text")], [])
        assert [column.name for column in side.columns] == ["id", "s"]
        assert sum(batch.num_rows for batch in side.read(Request(("id", "s")))) == 0
        assert side.sample(("id",)).num_rows == 0
        assert side.sample(("id",)).column_names == ["id"]

    def test_batches_keep_to_the_asked_size(self, opened: Build) -> None:
        """Memory is bounded by batches, so their size is a promise; names and order are those of the request."""
        side = opened([("id", "int"), ("s", "text")], [(str(at), "x" * 100) for at in range(5_000)])
        batches = list(side.read(Request(("s", "id"), batch_rows=1_000)))
        assert all(batch.num_rows <= 1_000 for batch in batches)
        assert sum(batch.num_rows for batch in batches) == 5_000
        assert all(batch.schema.names == ["s", "id"] for batch in batches)

    def test_a_read_that_is_given_up_leaves_the_side_usable(self, opened: Build) -> None:
        """A limit or an error elsewhere stops a read in its middle; the next one starts at the beginning."""
        side = opened([("id", "int"), ("s", "text")], [(str(at), "x") for at in range(5_000)])
        stream = side.read(Request(("id",), batch_rows=100))
        assert next(stream).num_rows <= 100
        stream.close()
        assert sum(batch.num_rows for batch in side.read(Request(("id",)))) == 5_000

    def test_a_sample_holds_rows_of_the_table(self, opened: Build) -> None:
        """A plan is made of samples; about the asked number, from all over."""
        side = opened([("id", "int"), ("s", "text")], [(str(at), "x") for at in range(5_000)])
        sample = side.sample(("id",), 500)
        numbers = [int(value) for value in sample.column("id").to_pylist()]
        assert 100 <= len(set(numbers)) <= 5_000
        assert set(numbers) <= set(range(5_000))
        estimate = side.estimate_rows()
        assert estimate is None or 0 <= estimate <= 50_000

    def test_a_missing_table_is_refused_by_name(self, absent: Side) -> None:
        """A table that is not there is a refusal, never an empty result, and nothing is created."""
        with pytest.raises(SideMissingError):
            _ = absent.columns
        absent.close()

    def test_a_missing_column_is_refused(self, opened: Build) -> None:
        """A column that is gone gives no verdict."""
        side = opened([("id", "int")], [("1",)])
        with pytest.raises(DeltaError, match="nowhere"):
            list(side.read(Request(("nowhere",))))


def bounds(keys: list[bytes]) -> list[tuple[bytes | None, bytes | None]]:
    """Return ranges over some keys: whole keys, cut keys, keys with bytes behind, and noise."""
    noise = random.Random(11)
    places: list[bytes | None] = [None, *keys]
    places += [key[: len(key) // 2] for key in keys[:6] if len(key) > 1]
    places += [key + b"\x00" for key in keys[:4]] + [b"\x00", b"\xff" * 3, b"\x20"]
    places += [noise.randbytes(noise.randint(1, 6)) for _ in range(6)]
    pairs = [(noise.choice(places), noise.choice(places)) for _ in range(40)]
    pairs += [(None, None), *((None, key) for key in keys[:5]), *((key, None) for key in keys[:5])]
    return [(low, high) for low, high in pairs if low is None or high is None or low < high]


def resolved(side: Side, columns: list[tuple[str, str]]) -> Side:
    """Give untyped columns the kind that the test means, as the partner's type would be given."""
    from airflow_delta_provider.core.types import LogicalType

    kinds = dict(columns)
    missing = {each.name: LogicalType(kinds[each.name]) for each in side.columns if each.untyped}
    return side.resolve(missing) if missing else side
