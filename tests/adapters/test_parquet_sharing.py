"""Two Parquet sides read at once: what is stored alike is decoded once, and each read delivers what it would alone."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_delta_provider.adapters.files import sharing
from airflow_delta_provider.adapters.files.parquet import ParquetSide
from airflow_delta_provider.adapters.files.paths import find_files
from airflow_delta_provider.adapters.side import Request
from airflow_delta_provider.core.errors import SideFileError, SideMissingError
from airflow_delta_provider.core.types import LogicalType

NAMES = ("id", "n", "note", "day")
INT = LogicalType("int")
REQUEST = Request(columns=NAMES, key=("id",), key_types=(INT,), ordered=True, batch_rows=10)


def table(rows: int = 100, **changed: Any) -> pa.Table:
    """Return a table; ``changed`` gives other columns."""
    columns: dict[str, Any] = {
        "id": pa.array(range(rows), pa.int64()),
        "n": pa.array([None if row % 7 == 0 else row * 3 for row in range(rows)], pa.int32()),
        "note": pa.array([f"note {row % 5}" for row in range(rows)]),
        "day": pa.array([row % 300 for row in range(rows)], pa.date32()),
    }
    return pa.table({**columns, **changed})


def side(path: Path, data: pa.Table, rows: int = 40, **options: Any) -> ParquetSide:
    """Write a file of row groups of ``rows`` rows and return it as a side."""
    pq.write_table(data, path, row_group_size=rows, write_page_checksum=True, **options)
    return ParquetSide(find_files(str(path)), {}, str(path))


def together(one: ParquetSide, other: ParquetSide, request: Request = REQUEST) -> tuple[Request, Request]:
    """Return requests that share; fails where the sides share nothing."""
    found = one.together(request, other, request)
    assert found is not None
    return found


def read(part: ParquetSide, request: Request) -> list[dict[str, Any]]:
    """Return the rows that a read delivers."""
    return [row for batch in part.read(request) for row in batch.to_pylist()]


def decoded(monkeypatch: pytest.MonkeyPatch, one: ParquetSide, other: ParquetSide) -> dict[int, set[str]]:
    """Note which columns of which side's file are decoded from here on, by row group number and name."""
    found: dict[int, set[str]] = {0: set(), 1: set()}
    plain = ParquetSide._reading

    def noting(self: ParquetSide, index: int, numbers: list[int], names: tuple[str, ...], rows: int) -> Any:
        found[0 if self is one else 1] |= {f"{number}:{name}" for number in numbers for name in names}
        return plain(self, index, numbers, names, rows)

    monkeypatch.setattr(ParquetSide, "_reading", noting)
    assert other is not one
    return found


def test_equal_files_are_decoded_once_and_delivered_twice(tmp_path, monkeypatch):
    """The whole gain: the second file's values cost no decoding."""
    one, other = side(tmp_path / "a.parquet", table()), side(tmp_path / "b.parquet", table())
    found = decoded(monkeypatch, one, other)
    requests = together(one, other)
    mine, theirs = one.read(requests[0]), other.read(requests[1])
    pairs = list(zip(mine, theirs, strict=True))
    assert all(here.equals(there) for here, there in pairs)
    assert [row for here, _ in pairs for row in here.to_pylist()] == table().to_pylist()
    assert (len(found[0]), found[1]) == (12, set())


def test_a_changed_value_is_read_from_its_own_file(tmp_path, monkeypatch):
    """Only chunks that are equal byte for byte are shared; one changed value makes its chunk another."""
    values = table()["n"].to_pylist()
    values[50] = 7
    changed = table(n=pa.array(values, pa.int32()))
    one, other = side(tmp_path / "a.parquet", table()), side(tmp_path / "b.parquet", changed)
    found = decoded(monkeypatch, one, other)
    requests = together(one, other)
    mine, theirs = one.read(requests[0]), other.read(requests[1])
    pairs = list(zip(mine, theirs, strict=True))
    assert [row for here, _ in pairs for row in here.to_pylist()] == table().to_pylist()
    assert [row for _, there in pairs for row in there.to_pylist()] == changed.to_pylist()
    assert found[1] == {"1:n"}


def test_the_same_bytes_of_another_type_are_not_shared(tmp_path):
    """An unsigned number may have the bytes of a signed one and mean another value."""
    numbers = [2**31 + row for row in range(100)]
    one = side(tmp_path / "a.parquet", table(n=pa.array([number - 2**32 for number in numbers], pa.int32())))
    other = side(tmp_path / "b.parquet", table(n=pa.array(numbers, pa.uint32())))
    requests = together(one, other)
    assert [row["n"] for row in read(one, requests[0])] == [number - 2**32 for number in numbers]
    assert [row["n"] for row in read(other, requests[1])] == numbers


@pytest.mark.parametrize("ahead", [1, 5, 9, 100], ids=["in step", "some ahead", "more than is held", "one after all"])
def test_a_read_that_is_far_behind_decodes_for_itself(tmp_path, monkeypatch, ahead):
    """However far one thread runs ahead, memory stays bounded and the other still gets every row."""
    monkeypatch.setattr(sharing, "HELD_BATCHES", 3)
    one, other = side(tmp_path / "a.parquet", table(), 100), side(tmp_path / "b.parquet", table(), 100)
    requests = together(one, other)
    first, second = one.read(requests[0]), other.read(requests[1])
    mine = list(itertools.islice(first, ahead))
    theirs = [*second]
    mine += first
    for batches in (mine, theirs):
        assert pa.Table.from_batches(batches).to_pylist() == table().to_pylist()


def test_a_damaged_file_is_refused_though_the_other_is_sound(tmp_path):
    """A flipped byte makes the chunks differ, so the damaged file is read itself, and its checksum speaks."""
    one, other = side(tmp_path / "a.parquet", table()), side(tmp_path / "b.parquet", table())
    data = bytearray((tmp_path / "b.parquet").read_bytes())
    start, size = sharing.span(other._footers[0].row_group(1).column(2))
    data[start + size - 3] ^= 1
    (tmp_path / "b.parquet").write_bytes(bytes(data))
    requests = together(one, other)
    assert read(one, requests[0]) == table().to_pylist()
    with pytest.raises(SideFileError, match=r"b\.parquet"):
        read(other, requests[1])


def test_damage_that_both_files_have_is_refused_by_each_under_its_own_name(tmp_path):
    """Whoever decodes first meets it; the other must neither end early, as if no row was left, nor blame that file."""
    sides = [side(tmp_path / name, table()) for name in ("a.parquet", "b.parquet")]
    for part, path in zip(sides, sorted(tmp_path.iterdir()), strict=True):
        data = bytearray(path.read_bytes())
        start, size = sharing.span(part._footers[0].row_group(1).column(2))
        data[start + size - 3] ^= 1
        path.write_bytes(bytes(data))
    one, other = sides
    requests = together(one, other)
    for part, request, name in ((other, requests[1], "b"), (one, requests[0], "a")):
        with pytest.raises(SideFileError, match=rf"{name}\.parquet"):
            read(part, request)


def test_a_file_that_is_gone_is_missed_by_its_own_side(tmp_path):
    """What cannot be compared is not shared; the sound side reads on."""
    one, other = side(tmp_path / "a.parquet", table()), side(tmp_path / "b.parquet", table())
    requests = together(one, other)
    (tmp_path / "b.parquet").unlink()
    assert read(one, requests[0]) == table().to_pylist()
    with pytest.raises(SideMissingError, match=r"b\.parquet"):
        read(other, requests[1])


def test_the_same_bytes_of_another_writer_are_not_shared(tmp_path, monkeypatch):
    """Readers take account of faults of some writers, so that equal bytes may be read in two ways."""
    one, other = side(tmp_path / "a.parquet", table()), side(tmp_path / "b.parquet", table())
    data = (tmp_path / "b.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(data.replace(b"parquet-cpp-arrow", b"parquet-cpp-other"))
    other = ParquetSide(find_files(str(tmp_path / "b.parquet")), {}, "b.parquet")
    found = decoded(monkeypatch, one, other)
    requests = together(one, other)
    assert read(one, requests[0]) == read(other, requests[1]) == table().to_pylist()
    assert len(found[1]) == 12


def test_nothing_is_kept_for_a_side_that_decodes_for_itself(tmp_path, monkeypatch):
    """It never comes back for it, and a file may have thousands of groups."""
    monkeypatch.setattr(sharing, "HELD_BATCHES", 3)
    one, other = side(tmp_path / "a.parquet", table(), 100), side(tmp_path / "b.parquet", table(), 100)
    requests = together(one, other)
    assert read(one, requests[0]) == read(other, requests[1]) == table().to_pylist()
    assert [len(group._held) for group in requests[0].shared.groups.values()] == [0]


@pytest.mark.parametrize("short", ["shared", "own"])
def test_columns_of_unlike_length_are_refused(short):
    """A reader finds them only among columns that it reads together; a page header may promise anything."""

    @contextmanager
    def reading(names: tuple[str, ...], rows: int) -> Any:
        count = 7 if names == (short,) else 10
        yield iter([pa.record_batch({names[0]: pa.array(range(count))})])

    chunks = sharing.Chunks(
        10, ("own", "shared"), (None, "alike"), ((0, 0), (0, 4)), lambda: pa.BufferReader(b"same"), reading
    )
    group = sharing.SharedGroup(chunks, chunks)
    for number in (0, 1):
        with pytest.raises(pa.ArrowInvalid, match="row group"):
            list(group.read(number, 10))


def test_files_in_other_places_share_nothing(tmp_path):
    """Comparing bytes of an object store would fetch them twice; filters add columns of their own."""
    one, other = side(tmp_path / "a.parquet", table()), side(tmp_path / "b.parquet", table())
    far = ParquetSide(tuple(replace(file, fs=object()) for file in other.files), {}, "b.parquet")
    far.__dict__["_heads"] = other._heads
    assert one.together(REQUEST, far, REQUEST) is None
    assert one.together(replace(REQUEST, filter=object()), other, REQUEST) is None


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_shared_reads_deliver_what_reads_alone_deliver(tmp_path, data):
    """Whatever the groups, encodings, damage and pace: sharing changes who decodes, never what arrives."""
    rows = data.draw(st.integers(1, 120), "rows")
    tables = []
    for name in ("source", "target"):
        values = table(rows)["n"].to_pylist()
        for place in data.draw(st.lists(st.integers(0, rows - 1), max_size=2), f"damage of {name}"):
            values[place] = 99
        tables.append(table(rows, n=pa.array(values, pa.int32())))
    group, dictionary = data.draw(st.integers(1, 60), "group"), data.draw(st.booleans(), "dictionary")
    paths = [tmp_path / "s.parquet", tmp_path / "t.parquet"]
    one, other = (side(path, part, group, use_dictionary=dictionary) for path, part in zip(paths, tables, strict=True))
    requests = together(one, other, replace(REQUEST, batch_rows=data.draw(st.integers(1, 30), "batch")))
    reads: list[Any] = [one.read(requests[0]), other.read(requests[1])]
    found: list[list[Any]] = [[], []]
    while any(found_read is not None for found_read in reads):
        turn = data.draw(st.sampled_from([number for number in (0, 1) if reads[number] is not None]), "turn")
        batch = next(reads[turn], None)
        if batch is None:
            reads[turn] = None
        else:
            found[turn] += batch.to_pylist()
    assert found == [part.to_pylist() for part in tables]
