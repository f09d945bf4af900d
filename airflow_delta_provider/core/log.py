"""The log of a pair: dense, numbered, hash-chained entries that make published artifacts visible."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from airflow_delta_provider.core import jsonc
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


def head(store: Store, pair_id: str) -> Entry | None:
    """Return the newest entry, or None where the log is empty, in O(log n) reads and without listing.

    Shape: doubling finds a number that is free, bisection the last one before it that is taken.
    """
    found: Entry | None = None
    free = 0
    while (entry := _read_if_there(store, pair_id, free)) is not None:
        found, free = entry, 2 * free + 1
    while found is not None and free - found.seq > 1:
        middle = (found.seq + free) // 2
        entry = _read_if_there(store, pair_id, middle)
        if entry is None:
            free = middle
        else:
            found = entry
    return found


def append(store: Store, pair_id: str, kind: str, ref: str) -> Entry:
    """Make ``ref`` visible: add an entry after everything that it refers to is stored.

    Where the newest entry of this kind has this ``ref`` already, that one is returned and nothing is added.
    Parallel writers take turns by conditional create: no gap, no fork.
    """
    if kind not in KINDS:
        raise LogChainError(f"{kind!r} is no kind of log entry.")
    layout.checked_digest(ref)
    newest = head(store, pair_id)
    same_kind = next((entry for entry in walk_back(store, pair_id, newest) if entry.kind == kind), None)
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
    while newest is not None:
        yield newest
        if newest.seq == 0:
            return
        older = _demand(store, pair_id, newest.seq - 1)
        _linked(newest, older)
        newest = older


def read_log(store: Store, pair_id: str, listed: bool = False) -> list[Entry]:
    """Return all entries, oldest first, with every link checked.

    ``listed`` also looks for entries that lie beyond a missing one, by listing: for audits.
    Raises: LogGapError (DELTA_LOG_GAP), LogChainError (DELTA_LOG_CHAIN).
    """
    newest = head(store, pair_id)
    entries: list[Entry] = []
    for seq in range(newest.seq + 1 if newest else 0):
        entries.append(_linked(_demand(store, pair_id, seq), entries[-1] if entries else None))
    if listed:
        _refuse_beyond(store, pair_id, len(entries))
    return entries


def register_pair(store: Store, name: str, source: str, target: str) -> str:
    """Store which pair a log is about, once, and return the pair id, 32 hex digits."""
    data = pair_bytes(name, source, target)
    pair_id = hashlib.sha256(data).hexdigest()[:32]
    path = layout.pair_path(pair_id)
    if not store.create(path, data) and store.read(path, PAIR_BYTES_MAX) != data:
        raise StoreConflictError(f"{store.uri} holds other bytes under {path}.", where=path)
    return pair_id


def pair_bytes(name: str, source: str, target: str) -> bytes:
    """Return the bytes of ``pair.json``; the first 32 hex digits of their SHA-256 are the pair id."""
    return jsonc.dumps({"name": name, "source": source, "target": target})


def pair_id_of(name: str, source: str, target: str) -> str:
    """Return the id of a pair, 32 hex digits."""
    return hashlib.sha256(pair_bytes(name, source, target)).hexdigest()[:32]


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


def _demand(store: Store, pair_id: str, seq: int) -> Entry:
    entry = _read_if_there(store, pair_id, seq)
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
