"""Look again before a live table is accused: the rows that differed are read anew, until they agree or looks run out.

The last look replaces the first for those rows, so the sums of the manifest hold (docs/contract.md, 5).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from airflow_delta_provider.adapters.side import Order
from airflow_delta_provider.core import stream
from airflow_delta_provider.core.arrays import binary_list
from airflow_delta_provider.core.compare import Progress, Tally, compare_blocks
from airflow_delta_provider.core.errors import SideChangedError
from airflow_delta_provider.core.plan import KeyRange
from airflow_delta_provider.core.rawcompare import RawReader, RawWriter
from airflow_delta_provider.core.spec import Spec
from airflow_delta_provider.core.spill import sort_batches
from airflow_delta_provider.core.types import KEY_BYTES
from airflow_delta_provider.engine.named import canceller
from airflow_delta_provider.engine.narrow import may_narrow, narrow
from airflow_delta_provider.engine.opened import Opened
from airflow_delta_provider.engine.prefetch import Prefetched
from airflow_delta_provider.engine.shards import compare_shard, facts_of, refused_key

SINGLE_READS_MAX = 64
"""Most keys that are looked up one by one; beyond, the range that holds them is read."""
WAIT_STEP_S = 1.0
LOOKS = ("confirmed", "in_flight")
"""What later looks count."""

Reopen = Callable[[], Opened]
"""Opens both sides anew, so that a look sees what was written since."""


def compare_settled(
    opened: Opened,
    reopen: Reopen,
    key_range: KeyRange,
    file: BinaryIO,
    *,
    progress: Progress | None = None,
    sleep: Callable[[float], None] = time.sleep,
    **options: Any,
) -> dict[str, Any]:
    """Compare one shard by the strategy asked for, then look again at what differs, as often as the specification says.

    The facts then also count ``confirmed`` (still different at the last look) and ``in_flight`` (no longer).
    Raises: as ``compare_shard``; SideChangedError where the columns of a side changed in between.
    """
    start, spec = file.tell(), opened.spec
    began = time.monotonic()
    narrowed = narrow(opened, key_range) if may_narrow(opened) else None
    waited_ms = round((time.monotonic() - began) * 1000)
    facts = compare_shard(opened, key_range, file, progress=progress, narrowed=narrowed, **options)
    facts["read_ms"] += waited_ms
    how = {} if narrowed is None else narrowed.facts
    if not spec.recheck_attempts:
        return {**facts, **how}
    accused = facts["records"]
    for _ in range(spec.recheck_attempts):
        if not facts["records"]:
            break
        opened.close()  # a snapshot kept open would hold up the very writes that are waited for; sides open again on use
        _wait(spec.recheck_delay_s, facts, progress, sleep)
        file.seek(start)
        keys = _record_keys(file)
        with reopen() as again, tempfile.TemporaryFile() as look:
            if again.shared.identity != opened.shared.identity:
                raise SideChangedError("the columns of a side changed between two looks.")
            facts = _look(again, key_range, keys, facts, look, options.get("folder"))
            _replace(file, start, look)
    return {**facts, **how, "confirmed": facts["records"], "in_flight": accused - facts["records"]}


def settled_form(spec: Spec, facts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the sidecar says of later looks over all shards: nothing where none was asked for."""
    if not spec.recheck_attempts:
        return {}
    shards = list(facts)
    counts = {name: sum(one.get(name, 0) for one in shards) for name in LOOKS}
    return {"recheck": {"attempts": spec.recheck_attempts, **counts}}


def _wait(seconds: float, facts: dict[str, Any], progress: Progress | None, sleep: Callable[[float], None]) -> None:
    rows = [facts["population"][side]["rows"] for side in ("source", "target")]
    left = seconds
    while left > 0:
        if progress is not None:
            progress(rows[0], rows[1])
        sleep(min(WAIT_STEP_S, left))
        left -= WAIT_STEP_S


def _record_keys(file: BinaryIO) -> list[bytes]:
    return [key for batch in RawReader(file).batches() for key in batch.column("sort_key").to_pylist()]


def _replace(file: BinaryIO, start: int, look: BinaryIO) -> None:
    look.seek(0)
    file.seek(start)
    file.truncate()
    while part := look.read(1024 * 1024):
        file.write(part)


def _look(
    opened: Opened, key_range: KeyRange, keys: list[bytes], before: dict[str, Any], file: BinaryIO, folder: str | None
) -> dict[str, Any]:
    tally = Tally()
    writer = RawWriter(file, opened.shared.identity, (key_range.lower, key_range.upper))
    try:
        with (
            closing(
                Prefetched(lambda: _accused(opened, "source", keys, folder), "source", canceller(opened.source))
            ) as source,
            closing(
                Prefetched(lambda: _accused(opened, "target", keys, folder), "target", canceller(opened.target))
            ) as target,
        ):
            compare_blocks(
                stream.guarded_blocks(source, opened.layout("source", key_range), tally.source, ordered=True),
                stream.guarded_blocks(target, opened.layout("target", key_range), tally.target, ordered=True),
                opened.comparison,
                tally,
                writer,
            )
    except stream.RefusedKeyError as error:
        raise refused_key(opened, error) from None
    facts = _combined(before, facts_of(tally))
    writer.close(facts)
    return facts


def _accused(opened: Opened, name: str, keys: list[bytes], folder: str | None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one side that have these keys, in key order, with their key bytes."""
    wanted = binary_list(keys)
    bounds = [(key, key) for key in keys] if len(keys) <= SINGLE_READS_MAX else [(keys[0], keys[-1])]
    ranges = [KeyRange(first, last + b"\x00") for first, last in bounds]
    rows = (batch for one in ranges for batch in _rows(opened, name, one, wanted))
    yield from rows if opened.order(name) is Order.PROMISED else sort_batches(rows, folder=folder)


def _rows(opened: Opened, name: str, key_range: KeyRange, wanted: Any) -> Iterator[pa.RecordBatch]:
    request = opened.request(name, key_range, ordered=opened.order(name) is Order.PROMISED)
    layout = opened.layout(name, key_range)
    for batch in stream.keyed_batches(opened.side(name).read(request), layout):
        kept = batch.filter(pc.is_in(batch.column(KEY_BYTES), value_set=wanted))
        if kept.num_rows:
            yield kept


def _combined(before: dict[str, Any], look: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a shard after a look at its accused rows: theirs are replaced, all others stay."""
    categories = before["categories"]
    both = categories["value_diverged"]
    population: dict[str, Any] = {"unchanged": before["population"]["unchanged"] + look["population"]["unchanged"]}
    for side, alone in (("source", "dropped"), ("target", "added")):
        old, new = before["population"][side], look["population"][side]
        population[side] = {member: old[member] + new[member] for member in old}
        population[side]["rows"] -= both + categories[alone]
    return {
        **look,
        "population": population,
        "rules": _settled(before["rules"], before["rules_recorded"], look["rules"]),
        "key_rules": _settled(before["key_rules"], before["key_rules_recorded"], look["key_rules"]),
    }


def _settled(old: list[list[int]], recorded: list[list[int]], new: list[list[int]]) -> list[list[int]]:
    return [
        [first - gone + last for first, gone, last in zip(*column, strict=True)]
        for column in zip(old, recorded, new, strict=True)
    ]
