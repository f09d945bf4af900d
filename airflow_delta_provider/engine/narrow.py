"""Strategies ``fingerprint`` and ``fast``: both engines digest their rows bucket by bucket, only what differs is read.

The counts of equal buckets go into the same tally that the stream of the others fills, so the manifest is that of a
stream. Where anything could make an equal digest mean less than equal rows, the shard is streamed, and the reason kept.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_delta_provider.adapters.fingerprints import CANARY, FAST, FINGERPRINT, MD5, Buckets, Form, forms_of
from airflow_delta_provider.adapters.side import Request
from airflow_delta_provider.core.compare import Tally
from airflow_delta_provider.core.errors import FingerprintDeclinedError, shown
from airflow_delta_provider.core.plan import KeyRange
from airflow_delta_provider.engine.named import NamedSide, canceller
from airflow_delta_provider.engine.opened import Opened
from airflow_delta_provider.engine.prefetch import Prefetched

SIDES = ("source", "target")
BUCKET_ROWS = 32
"""About how many rows a bucket holds."""
BUCKETS_MAX = 2**20
RANGES_PER_READ = 128
"""Most key ranges of differing buckets that one statement names."""
HASHES_MAX = 20_000
"""Most hashed buckets that one statement names; beyond, the shard is read whole."""
READ_SHARE_MAX = 0.5
"""Beyond this share of rows in differing buckets the shard is read whole, in one read."""
FACTS = ("strategy", "strategy_reason", "buckets", "buckets_read")
"""What a shard's facts say of its strategy."""
FAST_BOUND = "2^-64 for each bucket of rows that differs, taking the engine's hash to spread as a random one; no proof"
NARROWING = ("fingerprint", "fast")
AUTO = "auto"
DECLINED = "a fingerprint was declined: "
"""What the reason begins with where ``auto`` had to do without the fingerprint that it chose."""
AUTO_ROWS_MIN = 500_000
"""Fewer rows are streamed before it is known what else could be done with them."""
AUTO_GAIN_MIN = 3.0
"""``auto`` takes a fingerprint where the link makes a stream so many times slower."""
FINGERPRINT_S = 5e-6
"""What a server takes to write and digest one row of ten columns; docs/strategies.md says how that was measured."""
PROBE_BYTES = 1 << 20
_FUNCTIONS = {"fingerprint": MD5, "fast": FAST, AUTO: MD5}
_CANARY_MD5 = struct.unpack(">qq", hashlib.md5(CANARY.encode(), usedforsecurity=False).digest())
_WEAKEST_FIRST = ("fast", "fingerprint", "stream")
_MARKS = {"source": "!source", "target": "!target"}


@dataclass(frozen=True, slots=True)
class Narrowing:
    """How all shards of two opened sides are narrowed; ``reason`` says why where that is not what was asked for.

    ``strategy``: ``stream`` narrows nothing. ``keys``, ``values``: forms of each side's columns, pairwise the same.
    ``whole_key``: the key is one whole number of at most 64 bits, signed. ``span``: its least and greatest on both sides.
    """

    strategy: str
    reason: str = ""
    keys: Mapping[str, tuple[Form, ...]] = field(default_factory=dict)
    values: Mapping[str, tuple[Form, ...]] = field(default_factory=dict)
    whole_key: bool = False
    span: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Narrowed:
    """What the fingerprints of one shard say.

    ``facts`` for the sidecar. ``counts``: (rows, rows kept by the filter) of each side in equal buckets.
    ``reads``: buckets of each successive read, ascending; None where the whole shard is read (``counts`` are 0 then).
    """

    facts: dict[str, Any]
    counts: Mapping[str, tuple[int, int]] = field(default_factory=lambda: dict.fromkeys(SIDES, (0, 0)))
    reads: tuple[Buckets, ...] | None = None
    keys: Mapping[str, tuple[Form, ...]] = field(default_factory=dict)

    def count_into(self, tally: Tally) -> None:
        """Add the rows of the equal buckets to a tally."""
        for counts, name in ((tally.source, "source"), (tally.target, "target")):
            rows, kept = self.counts[name]
            counts.rows += rows
            counts.skipped += rows - kept
        tally.unchanged += self.counts["source"][1]

    def requests(self, whole: Request, name: str) -> list[Request]:
        """Return the reads of one side, in key order; ``whole`` is the read of its whole shard."""
        if self.reads is None:
            return [whole]
        return [replace(whole, buckets=replace(each, key=self.keys[name], mark=_MARKS[name])) for each in self.reads]


def narrowing_of(opened: Opened) -> Narrowing:
    """Return how the shards of two opened sides are narrowed under their specification, decided once."""
    if not isinstance(opened.narrowing, Narrowing):
        with _at_best(opened):
            opened.narrowing = _decide(opened)
    return opened.narrowing


@contextmanager
def _at_best(opened: Opened) -> Iterator[None]:
    """Stream from here on where an engine declines what only ``auto`` asks of it; what was asked for is refused.

    Nothing else is caught: after a cancellation nobody waits for a stream, and after a cut there is no line for it.
    """
    try:
        yield
    except FingerprintDeclinedError as error:
        if opened.spec.strategy != AUTO:
            raise
        opened.narrowing = Narrowing("stream", f"{DECLINED}{error.message}")


def narrows(opened: Opened) -> bool:
    """Tell whether the shards are fingerprinted, so that no side need be read as a whole."""
    return may_narrow(opened) and narrowing_of(opened).strategy != "stream"


def may_narrow(opened: Opened) -> bool:
    """Tell whether fingerprints come into question; under ``auto`` only for many rows, since asking takes a while."""
    if opened.spec.strategy != AUTO:
        return opened.spec.strategy in NARROWING
    return all((opened.side(name).estimate_rows() or 0) >= AUTO_ROWS_MIN for name in SIDES)


def united_facts(pieces: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what several pieces say of their strategies as one: the weakest, the sums, every reason once."""
    found = [piece for piece in pieces if "strategy" in piece]
    if not found:
        return {}
    reasons = dict.fromkeys(piece["strategy_reason"] for piece in found if piece.get("strategy_reason"))
    return {
        "strategy": next(name for name in _WEAKEST_FIRST if any(piece["strategy"] == name for piece in found)),
        "strategy_reason": "; ".join(reasons),
        "buckets": sum(piece.get("buckets", 0) for piece in found),
        "buckets_read": sum(piece.get("buckets_read", 0) for piece in found),
    }


def strategy_form(asked: str, facts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the sidecar and ``--json`` say of the strategy, from the facts of all shards.

    ``strategy`` is the weakest proof that any shard rests on; one whose facts are lost is taken to rest on what was
    asked for. A strategy that was asked for and not taken is named with the reason, and a verdict that is only probable
    with its bound.
    """
    if asked == AUTO:  # what was chosen to be streamed says nothing; a shard whose facts are lost may have been either
        facts = [one or {"strategy": "fingerprint"} for one in facts]
        facts = [one for one in facts if one.get("strategy", "stream") != "stream" or _declined(one)]
    if asked not in _FUNCTIONS or (asked == AUTO and not facts):
        return {"strategy": "stream"}
    whole = united_facts([one if "strategy" in one else {"strategy": asked} for one in facts] or [{"strategy": asked}])
    form: dict[str, Any] = {
        "strategy": whole["strategy"],
        "strategy_asked": asked,
        "buckets": {"compared": whole["buckets"], "read": whole["buckets_read"]},
    }
    if whole["strategy_reason"]:
        form["strategy_reason"] = whole["strategy_reason"]
    if form["strategy"] == "fast":
        form["verdict"] = {"bound": FAST_BOUND, "kind": "probabilistic"}
    return form


def _declined(facts: Mapping[str, Any]) -> bool:
    return str(facts.get("strategy_reason", "")).startswith(DECLINED)


def narrow(opened: Opened, key_range: KeyRange) -> Narrowed:
    """Fingerprint one shard on both sides at once and say what is left to be read."""
    how = narrowing_of(opened)
    if how.strategy != "stream":
        with _at_best(opened):
            return _fingerprinted(opened, how, key_range)
    return _whole("stream", narrowing_of(opened).reason)


def _fingerprinted(opened: Opened, how: Narrowing, key_range: KeyRange) -> Narrowed:
    requests = {name: opened.request(name, key_range, ordered=False) for name in SIDES}
    sides = {name: _side(opened, name) for name in SIDES}
    if not all(sides[name].exact(requests[name]) for name in SIDES):
        return _whole("stream", "a bound of the shard cannot be written exactly in SQL")
    buckets = _buckets(opened, how, sides, requests)
    if buckets is None:
        return _whole(how.strategy, how.reason)
    tables = _fingerprints(how, sides, requests, buckets)
    if any(table.column("bucket").null_count for table in tables.values()):
        return _whole("stream", "a key is NULL")
    return _narrowed(how, buckets, tables)


def _whole(strategy: str, reason: str, **facts: Any) -> Narrowed:
    return Narrowed({"strategy": strategy, "strategy_reason": reason, **facts})


def _side(opened: Opened, name: str) -> NamedSide:
    side = opened.side(name)
    if not isinstance(side, NamedSide):
        side = NamedSide(name, side)
    return side


def _decide(opened: Opened) -> Narrowing:
    strategy = opened.spec.strategy
    sides = {name: _side(opened, name) for name in SIDES}
    for name in SIDES:
        if not sides[name].fingerprints():
            return Narrowing("stream", f"{name}: {sides[name].kind} takes no fingerprints")
        if sides[name].rows_per_second is not None:
            return Narrowing("stream", f"{name}: the engine would keep no ceiling of rows per second")
    ruled = [column.name for column in opened.typed.target_key if column.rules]
    ruled += [column.name for column in opened.comparison.columns if column.rules]
    if ruled:
        return Narrowing("stream", f"column {shown(ruled[0])} has rules, which decide here what is equal")
    if not any(_unique(opened, sides[name]) for name in SIDES):
        return Narrowing("stream", "neither side declares the key as its primary key, so no key is known to be unique")
    found = _forms(opened, sides)
    if isinstance(found, str):
        return Narrowing("stream", found)
    keys, values = found
    function, reason = _FUNCTIONS[strategy], ""
    if function == FAST:
        answers = {sides[name].canary(FAST) if sides[name].kind == sides["source"].kind else None for name in SIDES}
        if None in answers or len(answers) > 1:
            strategy, function = "fingerprint", MD5
            reason = "the sides share no fast hash of their own, so MD5 is taken"
    if function == MD5 and {sides[name].canary(MD5) for name in SIDES} != {_CANARY_MD5}:
        return Narrowing("stream", "the sides do not agree on the MD5 of one text")
    if strategy == AUTO:
        reason = _slow_link(sides, values)
        if not reason:
            return Narrowing("stream")
        strategy = "fingerprint"
    whole_key = _whole_key(opened)
    span = _span(sides, {name: opened.request(name, opened.key_range, ordered=False) for name in SIDES}, whole_key)
    return Narrowing(strategy, reason, keys, values, whole_key, span)


def _slow_link(sides: Mapping[str, NamedSide], values: Mapping[str, tuple[Form, ...]]) -> str:
    """Return why a fingerprint is worth its cost, or "" where both sides' rows come quickly enough."""
    found = []
    for name in SIDES:
        link = sides[name].link(values[name], PROBE_BYTES)
        if link is not None:
            row_bytes, rate = link
            found.append((row_bytes / rate / FINGERPRINT_S, name, row_bytes, rate))
    gain, name, row_bytes, rate = max(found, default=(0.0, "", 0.0, 0.0))
    if gain < AUTO_GAIN_MIN:
        return ""
    return f"{name}: rows of {row_bytes:.0f} bytes come at {rate / 1e6:.1f} MB/s, {gain:.0f} times as long as a digest"


def _unique(opened: Opened, side: NamedSide) -> bool:
    unique = side.unique_key()
    return bool(unique) and set(unique) <= {column.name for column in opened.key_columns(side.name)}


def _forms(
    opened: Opened, sides: Mapping[str, NamedSide]
) -> tuple[Mapping[str, tuple[Form, ...]], Mapping[str, tuple[Form, ...]]] | str:
    """Return the forms of key and values on each side, or why there are none."""
    same = sides["source"].kind == sides["target"].kind
    found: list[list[list[Form]]] = []
    keys = [
        (source.name, target.name, source.carrier, target.carrier, True)
        for source, target in zip(opened.typed.source_key, opened.typed.target_key, strict=True)
    ]
    names = [opened.layout(name, opened.key_range).values for name in SIDES]
    values = [
        (source, target, column.source, column.target, False)
        for source, target, column in zip(*names, opened.comparison.columns, strict=True)
    ]
    for group in (keys, values):
        pairs = []
        for source, target, source_type, target_type, key in group:
            for form in forms_of(source_type, target_type, same_engine=same, key=key):
                pair = [Form(source, form), Form(target, form)]
                if all(sides[name].writes(each) for name, each in zip(SIDES, pair, strict=True)):
                    pairs.append(pair)
                    break
            else:
                return f"column {shown(target)} has no text that is proved the same on both sides"
        found.append(pairs)
    key_forms, value_forms = (
        {name: tuple(pair[at] for pair in pairs) for at, name in enumerate(SIDES)} for pairs in found
    )
    return key_forms, value_forms


def _whole_key(opened: Opened) -> bool:
    """Tell whether the key is one whole number that compares as a signed one of 64 bits; PostgreSQL's oid does not."""
    pairs = [(opened.side(name).kind, column) for name in SIDES for column in opened.key_columns(name)]
    return len(pairs) == len(SIDES) and all(
        column.carrier.kind == "int"
        and (column.carrier.bits or 128) <= (32 if column.carrier.unsigned else 64)
        and not (column.carrier.unsigned and kind == "postgresql")
        for kind, column in pairs
    )


def _span(sides: Mapping[str, NamedSide], requests: Mapping[str, Request], whole_key: bool) -> tuple[int, int] | None:
    """Return least and greatest key of both sides in a range; None without rows, or where they span too much."""
    if not whole_key:
        return None
    spans = [span for span in (sides[name].key_span(requests[name]) for name in SIDES) if span is not None]
    if not spans:
        return None
    least, greatest = min(low for low, _ in spans), max(high for _, high in spans)
    return (least, greatest) if greatest - least < 2**62 and least > -(2**62) and greatest < 2**62 else None


def _buckets(
    opened: Opened, how: Narrowing, sides: Mapping[str, NamedSide], requests: Mapping[str, Request]
) -> Buckets | None:
    """Return how the shard is cut into buckets; None where it holds no row, so that reading it costs nothing."""
    rows = max(sides[name].estimate_rows() or 0 for name in SIDES)
    if how.span is not None:
        span = _span(sides, requests, True)
        if span is None:
            return None
        width = span[1] - span[0] + 1
        share = width / max(1, how.span[1] - how.span[0] + 1)
        count = max(1, min(BUCKETS_MAX, width // BUCKET_ROWS + 1, int(rows * share) // BUCKET_ROWS + 1))
        each = -(-width // count)
        return Buckets((), "", -(-width // each), span[0], each)
    shard = min(rows, 2 * opened.spec.shard_rows)
    return Buckets((), "", 1 << max(0, min(BUCKETS_MAX, shard // BUCKET_ROWS + 1).bit_length() - 1))


def _fingerprints(
    how: Narrowing, sides: Mapping[str, NamedSide], requests: Mapping[str, Request], buckets: Buckets
) -> dict[str, pa.Table]:
    """Return both fingerprints; the engines work at the same time."""
    function = _FUNCTIONS[how.strategy]

    def asked(name: str) -> Iterator[pa.RecordBatch]:
        mine = replace(buckets, key=how.keys[name], mark=_MARKS[name])
        return sides[name].fingerprint(replace(requests[name], buckets=mine), how.values[name], function)

    with (
        closing(Prefetched(lambda: asked("source"), "source", canceller(sides["source"]))) as source,
        closing(Prefetched(lambda: asked("target"), "target", canceller(sides["target"]))) as target,
    ):
        # both threads work from here on; what one has sent waits in memory, at most BUCKETS_MAX rows of 48 bytes
        return {
            name: pa.Table.from_batches(list(batches), FINGERPRINT).combine_chunks()
            for name, batches in (("source", source), ("target", target))
        }


def _narrowed(how: Narrowing, buckets: Buckets, tables: Mapping[str, pa.Table]) -> Narrowed:
    """Compare both fingerprints as arrays."""
    sides = {name: _Fingerprint.of(tables[name]) for name in SIDES}
    source, target = sides["source"], sides["target"]
    both, here, there = np.intersect1d(source.bucket, target.bucket, assume_unique=True, return_indices=True)
    same = (source.kept[here] == target.kept[there]) & (source.sums[here] == target.sums[there]).all(axis=1)
    differing = np.setdiff1d(np.union1d(source.bucket, target.bucket), both[same], assume_unique=True)
    equal = {"source": here[same], "target": there[same]}
    counts = {
        name: (int(sides[name].rows[equal[name]].sum()), int(sides[name].kept[equal[name]].sum())) for name in SIDES
    }
    facts = {
        "strategy": how.strategy,
        "strategy_reason": how.reason,
        "buckets": len(differing) + int(same.sum()),
        "buckets_read": len(differing),
    }
    total = sum(int(sides[name].rows.sum()) for name in SIDES)
    left = total - sum(rows for rows, _ in counts.values())
    many = not buckets.width and len(differing) > HASHES_MAX
    if many or left > total * READ_SHARE_MAX:
        return Narrowed(facts)
    return Narrowed(facts, counts, tuple(_reads(buckets, differing)), how.keys)


def _reads(buckets: Buckets, differing: Any) -> Iterator[Buckets]:
    """Yield the differing buckets of each read: runs of neighbours, RANGES_PER_READ of them; hashes all at once."""
    if not len(differing):
        return
    if not buckets.width:
        yield replace(buckets, chosen=tuple(differing.tolist()))
        return
    runs = np.split(differing, np.flatnonzero(np.diff(differing) != 1) + 1)
    for start in range(0, len(runs), RANGES_PER_READ):
        chosen = np.concatenate(runs[start : start + RANGES_PER_READ])
        yield replace(buckets, chosen=tuple(chosen.tolist()))


@dataclass(frozen=True, slots=True)
class _Fingerprint:
    """One side's fingerprint as arrays by ascending bucket; ``sums`` has four columns of 64 bits."""

    bucket: Any
    rows: Any
    kept: Any
    sums: Any

    @classmethod
    def of(cls, table: pa.Table) -> _Fingerprint:
        """Take the columns apart without copying their values through Python."""
        arrays = [_numbers(table.column(name), 1)[:, 0] for name in ("bucket", "rows", "kept")]
        sums = np.concatenate([_numbers(table.column(name), 2) for name in ("low", "high")], axis=1)
        order = np.argsort(arrays[0], kind="stable")
        return cls(arrays[0][order], arrays[1][order], arrays[2][order], sums[order])


def _numbers(column: pa.ChunkedArray, words: int) -> Any:
    """Return the values of a column as rows of 64-bit words."""
    parts = []
    for chunk in column.chunks:
        data = np.frombuffer(chunk.buffers()[1], dtype="<i8")
        parts.append(data.reshape(-1, words)[chunk.offset : chunk.offset + len(chunk)])
    return np.concatenate(parts) if parts else np.zeros((0, words), dtype="<i8")
