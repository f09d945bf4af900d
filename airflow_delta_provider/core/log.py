"""The log of a pair: dense, numbered, hash-chained entries that make published artifacts visible."""

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.documents import pair as pair_document
from airflow_delta_provider.core.errors import (
    DeltaError,
    LogChainError,
    LogGapError,
    StoreConflictError,
    StoreMissingError,
    StoreRetiredError,
    StoreWriteError,
)
from airflow_delta_provider.core.store import layout
from airflow_delta_provider.core.store.store import Store

LOG_FORMAT = "delta-log/1"
KINDS = ("manifest", "envelope", "sidecar", "generation", "checkpoint", "ledger", "trust", "retire")
ENTRY_BYTES_MAX = 512
PAIR_BYTES_MAX = 8192
APPEND_ATTEMPTS_MAX = 10_000
LOOK_BACK_MAX = 4096
READERS_MAX = 16
READERS_FROM = 4
SPAN_MAX = 256
AT_ONCE_FROM = 32
PROBES_AT_ONCE = 8

pair_id_of = pair_document.pair_id
"""The id of a pair by name, source and target: the name of its log."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One log entry.

    Shape: ``kind`` one of ``KINDS``; ``ref`` the digest of what became visible, in hex; ``prev`` the SHA-256 of
    the bytes of the entry before, in hex, None for the first; ``seq`` counts from 0.
    """

    kind: str
    prev: str | None
    ref: str
    seq: int

    @property
    def data(self) -> bytes:
        """The bytes of the entry, as stored and hashed."""
        return jsonc.dumps(
            {"format": LOG_FORMAT, "kind": self.kind, "prev": self.prev, "ref": self.ref, "seq": self.seq}
        )

    @property
    def digest_hex(self) -> str:
        """The SHA-256 of the bytes of the entry: the next one's ``prev``."""
        return hashlib.sha256(self.data).hexdigest()


def parse_entry(data: bytes, seq: int) -> Entry:
    """Read the bytes found under number ``seq``.

    Raises: LogChainError (DELTA_LOG_CHAIN) for anything but a log entry of this format with this number.
    """
    try:
        document = jsonc.loads(data)
    except DeltaError as error:
        raise LogChainError(f"Entry {seq} is no log entry: {error.message}", where=str(seq)) from error
    if not isinstance(document, dict) or sorted(document) != ["format", "kind", "prev", "ref", "seq"]:
        raise LogChainError(f"Entry {seq} has other members than a log entry.", where=str(seq))
    kind, prev, ref, found = document["kind"], document["prev"], document["ref"], document["seq"]
    if document["format"] != LOG_FORMAT or kind not in KINDS:
        raise LogChainError(f"Entry {seq} has a format or kind that is not known.", where=str(seq))
    if isinstance(found, bool) or found != seq:
        raise LogChainError(f"Entry {seq} says that it is entry {found!r}.", where=str(seq))
    if not layout.is_digest(ref) or not (prev is None if seq == 0 else layout.is_digest(prev)):
        raise LogChainError(f"Entry {seq} has a ref or prev that is no digest.", where=str(seq))
    return Entry(kind, prev, ref, seq)


def read_entry(store: Store, pair_id: str, seq: int) -> Entry:
    """Return one entry, its link to the one before unchecked.

    Raises: StoreMissingError (DELTA_STORE_MISSING), LogChainError (DELTA_LOG_CHAIN).
    """
    return parse_entry(store.read(layout.log_path(pair_id, seq), ENTRY_BYTES_MAX), seq)


def head(store: Store, pair_id: str, known: Entry | None = None) -> Entry | None:
    """Return the newest entry, or None where the log is empty, in O(log n) reads and without listing.

    Shape: doubling finds a number that is free, narrowing the last one before it that is taken. The first doublings go
    one by one; in a long log several numbers are asked for at once, so that a million entries take ten round trips.
    ``known`` is an entry that the caller has seen: the search starts there.
    """
    found = known or _read_if_there(store, pair_id, 0)
    if found is None:
        return None
    free = None
    step = 1
    while free is None:
        count = 1 if step < AT_ONCE_FROM else PROBES_AT_ONCE
        probes = [found.seq + step * 2**power for power in range(count)]
        found, free = _narrowed(store, pair_id, probes, found)
        step *= 2**count
    while free - found.seq > 1:
        gap = free - found.seq
        count = 1 if gap <= AT_ONCE_FROM else PROBES_AT_ONCE
        probes = sorted({found.seq + gap * part // (count + 1) or 1 for part in range(1, count + 1)})
        found, below = _narrowed(store, pair_id, [probe for probe in probes if found.seq < probe < free], found)
        free = free if below is None else below
    return found


def _narrowed(store: Store, pair_id: str, probes: Sequence[int], found: Entry) -> tuple[Entry, int | None]:
    """Return the last entry that is there before the first that is not, and the number of that one, if any."""
    for seq, entry in zip(probes, _read_many(store, pair_id, probes), strict=True):
        if entry is None:
            return found, seq
        found = entry
    return found, None


def append(store: Store, pair_id: str, kind: str, ref: str, after: Entry | None = None) -> Entry:
    """Make ``ref`` visible: add an entry after everything that it refers to is stored.

    Where the newest entry of this kind has this ``ref`` already, that one is returned and nothing is added. It is
    looked for among the newest ``LOOK_BACK_MAX`` entries: what a crashed try has logged is never older.
    Parallel writers take turns by conditional create: no gap, no fork. ``after`` is an entry that the caller has just
    seen, so that the head is near.
    """
    if kind not in KINDS:
        raise LogChainError(f"{kind!r} is no kind of log entry.")
    layout.checked_digest(ref)
    newest = head(store, pair_id, after)
    near = itertools.islice(walk_back(store, pair_id, newest), LOOK_BACK_MAX)
    same_kind = next((entry for entry in near if entry.kind == kind), None)
    if same_kind is not None and same_kind.ref == ref:
        return same_kind
    for _ in range(APPEND_ATTEMPTS_MAX):
        entry = Entry(kind, newest.digest_hex if newest else None, ref, newest.seq + 1 if newest else 0)
        if store.create(layout.log_path(pair_id, entry.seq), entry.data):
            return entry
        newest = _linked(read_entry(store, pair_id, entry.seq), newest)
        if newest.kind == kind and newest.ref == ref:
            return newest
    raise StoreWriteError(f"{APPEND_ATTEMPTS_MAX} entries of other writers came first in log {pair_id}.", where=pair_id)


def walk_back(store: Store, pair_id: str, newest: Entry | None) -> Iterator[Entry]:
    """Yield ``newest`` and the entries before it, newest first, each checked to be what the later one names.

    Raises: LogGapError (DELTA_LOG_GAP), LogChainError (DELTA_LOG_CHAIN).
    """
    if newest is None:
        return
    yield newest
    span = 1
    while newest.seq > 0:
        seqs = range(newest.seq - 1, max(-1, newest.seq - 1 - span), -1)
        for seq, older in zip(seqs, _read_many(store, pair_id, seqs), strict=True):
            _linked(newest, _there(pair_id, seq, older))
            newest = _there(pair_id, seq, older)
            yield newest
        span = min(2 * span, SPAN_MAX)


def find(store: Store, pair_id: str, kind: str, ref: str) -> Entry | None:
    """Return the newest entry of this kind that names ``ref``, None where none does. Raises: as `walk_back`."""
    entries = walk_back(store, pair_id, head(store, pair_id))
    return next((entry for entry in entries if (entry.kind, entry.ref) == (kind, ref)), None)


def read_log(store: Store, pair_id: str, listed: bool = False) -> list[Entry]:
    """Return all entries, oldest first, with every link checked.

    ``listed`` also looks for entries that lie beyond a missing one, by listing: for audits.
    Raises: LogGapError (DELTA_LOG_GAP), LogChainError (DELTA_LOG_CHAIN).
    """
    newest = head(store, pair_id)
    entries: list[Entry] = []
    size = newest.seq + 1 if newest else 0
    for start in range(0, size, SPAN_MAX):
        seqs = range(start, min(size, start + SPAN_MAX))
        for seq, entry in zip(seqs, _read_many(store, pair_id, seqs), strict=True):
            entries.append(_linked(_there(pair_id, seq, entry), entries[-1] if entries else None))
    if listed:
        _refuse_beyond(store, pair_id, len(entries))
    return entries


def register_pair(store: Store, name: str, source: str, target: str) -> str:
    """Store which pair a log is about, once, and return the pair id, 32 hex digits."""
    data, pair_id = pair_document.pair_bytes(name, source, target), pair_id_of(name, source, target)
    path = layout.pair_path(pair_id)
    if not store.create(path, data) and store.read(path, PAIR_BYTES_MAX) != data:
        raise StoreConflictError(f"{store.uri} holds other bytes under {path}.", where=path)
    return pair_id


def read_pair(store: Store, pair_id: str) -> dict[str, str]:
    """Return ``name``, ``source`` and ``target`` of a pair.

    Raises: StoreMissingError (DELTA_STORE_MISSING); StoreConflictError (DELTA_STORE_CONFLICT) where the file
    is not the one that the id was made from.
    """
    path = layout.pair_path(pair_id)
    data = store.read(path, PAIR_BYTES_MAX)
    if hashlib.sha256(data).hexdigest()[:32] != pair_id:
        raise StoreConflictError(f"{path} is not what its id was made from.", where=path)
    document: Any = jsonc.loads(data)
    if not isinstance(document, dict) or sorted(document) != ["name", "source", "target"]:
        raise StoreConflictError(f"{path} has other members than a pair.", where=path)
    return {member: str(value) for member, value in document.items()}


def list_pairs(store: Store) -> dict[str, dict[str, str]]:
    """Return every pair of a store by its id, found by listing: for people who look for a name."""
    found = (path.split("/") for path in store.list("pairs") if path.endswith("/pair.json"))
    return {parts[1]: read_pair(store, parts[1]) for parts in found if len(parts) == 3 and layout.is_pair_id(parts[1])}


def refuse_retired(entries: Iterable[Entry], digest_hex: str) -> None:
    """Tell a blob that was retired on purpose from one that is gone.

    Raises: StoreRetiredError (DELTA_STORE_RETIRED) where a ``retire`` entry names the digest.
    """
    for entry in entries:
        if entry.kind == "retire" and entry.ref == digest_hex:
            raise StoreRetiredError(f"{digest_hex} was retired by log entry {entry.seq}.", where=digest_hex)


def _read_if_there(store: Store, pair_id: str, seq: int) -> Entry | None:
    try:
        return read_entry(store, pair_id, seq)
    except StoreMissingError:
        return None


def _read_many(store: Store, pair_id: str, seqs: Sequence[int]) -> list[Entry | None]:
    """Return entries by number, None where there is none; more than a few are read at once."""
    if len(seqs) <= READERS_FROM:
        return [_read_if_there(store, pair_id, seq) for seq in seqs]
    with ThreadPoolExecutor(min(READERS_MAX, len(seqs))) as readers:
        return list(readers.map(lambda seq: _read_if_there(store, pair_id, seq), seqs))


def _there(pair_id: str, seq: int, entry: Entry | None) -> Entry:
    if entry is None:
        raise LogGapError(f"Log {pair_id} has no entry {seq}, but later ones.", where=str(seq))
    return entry


def _linked(entry: Entry, before: Entry | None) -> Entry:
    if entry.prev != (before.digest_hex if before else None):
        raise LogChainError(f"Entry {entry.seq} does not follow from the entry before it.", where=str(entry.seq))
    return entry


def _refuse_beyond(store: Store, pair_id: str, size: int) -> None:
    for path in store.list(f"pairs/{pair_id}/log"):
        name = path.rsplit("/", 1)[1].removesuffix(".json")
        if not name.isdecimal() or int(name) >= size:
            raise LogGapError(f"{path} lies beyond the end of the log, entry {size - 1}.", where=path)
