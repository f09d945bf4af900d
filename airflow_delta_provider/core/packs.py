"""Packs: the entry lines of a generation in runs of bounded size, and the index that proves each alone (S11)."""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_delta_provider.core import jsonc, merkle
from airflow_delta_provider.core.body import check_ascent
from airflow_delta_provider.core.documents.generation import (
    PACK_BYTES_MAX,
    PACK_ENTRIES_MAX,
    check_pack_row,
    pack_row,
)
from airflow_delta_provider.core.errors import (
    DeltaError,
    GenerationContractError,
    PackDigestError,
    PackIndexError,
    PackLimitError,
    UnsortedStreamError,
)
from airflow_delta_provider.core.generation import Entry

_LINE = re.compile(
    rb'\{"disposition":"(absent|failed|present|skipped)",'
    rb'"head":\{"previous":(?:null|"([0-9a-f]{64})"),"row_digest":(?:null|"([0-9a-f]{64})"),"version":([0-9]+)\},'
    rb'"key":(\[[^\n]*\]),"reason":(?:null|"([A-Z_]+)"),"sort_key":"((?:[0-9a-f]{2})*)"\}\n'
)

KeyBounds = tuple[bytes | None, bytes | None]


@dataclass(frozen=True, slots=True)
class PackRow:
    """One row of a pack index. Shape: ``start`` is the position of its first entry in the body; ``first`` key bytes."""

    pack_bytes: int
    first: bytes
    nodes: tuple[bytes, ...]
    records: int
    sha256: str
    start: int

    def line(self) -> bytes:
        """Return the canonical line of the index, without LF."""
        return pack_row(
            {
                "bytes": self.pack_bytes,
                "first": self.first.hex(),
                "nodes": [node.hex() for node in self.nodes],
                "records": self.records,
                "sha256": self.sha256,
            }
        )


def index_bytes(rows: Sequence[PackRow]) -> bytes:
    """Return a pack index: one line for each pack."""
    return b"".join(row.line() + b"\n" for row in rows)


class PackWriter:
    """Cuts entry lines into packs and computes the body block and the index.

    ``put`` is called with the bytes of each pack as it is full. Shape of packs: at most 16,384 entries and 8 MiB.
    """

    def __init__(self, put: Callable[[bytes], object]) -> None:
        self.rows: list[PackRow] = []
        self._put = put
        self._sha256 = hashlib.sha256()
        self._tree = merkle.Accumulator()
        self._lines: list[bytes] = []
        self._leaves: list[bytes] = []
        self._held_bytes = 0
        self._bytes = 0
        self._first = b""
        self._last: bytes | None = None

    def add(self, sort_key: bytes, line: bytes) -> None:
        """Add one entry line without LF, in key order.

        Raises: UnsortedStreamError (DELTA_INPUT_ORDER); PackLimitError (DELTA_PACK_LIMIT) for a line over 8 MiB.
        """
        self._last = check_ascent((sort_key,), self._last, "entries")
        self._add(sort_key, line, merkle.leaf_hash(line))

    def extend(self, sort_keys: Sequence[bytes], lines: Sequence[bytes], leaves: Sequence[bytes]) -> None:
        """Add many lines in key order, whose leaf hashes are known.

        Raises: as `add`.
        """
        self._last = check_ascent(sort_keys, self._last, "entries")
        start = 0
        while start < len(lines):
            room = PACK_ENTRIES_MAX - len(self._lines)
            chunk = lines[start : start + room]
            size = sum(map(len, chunk)) + len(chunk)
            if not chunk or self._held_bytes + size > PACK_BYTES_MAX:
                self._add(sort_keys[start], lines[start], leaves[start])
                start += 1
                continue
            if not self._lines:
                self._first = sort_keys[start]
            self._lines += chunk
            self._leaves += leaves[start : start + len(chunk)]
            self._held_bytes += size
            start += len(chunk)

    def _add(self, sort_key: bytes, line: bytes, leaf: bytes) -> None:
        size = len(line) + 1
        if size > PACK_BYTES_MAX:
            raise PackLimitError(f"One entry has {size} bytes, a pack at most {PACK_BYTES_MAX}.", where=sort_key.hex())
        if len(self._lines) >= PACK_ENTRIES_MAX or self._held_bytes + size > PACK_BYTES_MAX:
            self._flush()
        if not self._lines:
            self._first = sort_key
        self._lines.append(line)
        self._leaves.append(leaf)
        self._held_bytes += size

    def _flush(self) -> None:
        if not self._lines:
            return
        data, start = b"\n".join(self._lines) + b"\n", self._tree.size
        nodes = add_nodes(self._tree, self._leaves)
        digest = hashlib.sha256(data).hexdigest()
        self.rows.append(PackRow(len(data), self._first, nodes, len(self._leaves), digest, start))
        self._put(data)
        self._sha256.update(data)
        self._bytes += len(data)
        self._lines, self._leaves, self._held_bytes = [], [], 0

    def close(self) -> dict[str, Any]:
        """Return the body block; nothing may be added afterwards."""
        self._flush()
        return body_block(self._bytes, self._tree, self._sha256.hexdigest())


def add_nodes(tree: merkle.Accumulator, leaves: Sequence[bytes]) -> tuple[bytes, ...]:
    """Add leaves to a tree and return the aligned subtrees that cover them."""
    start = tree.size
    nodes = merkle.aligned_nodes(leaves, start)
    for height, node in zip(merkle.aligned_heights(start, start + len(leaves)), nodes, strict=True):
        tree.append_subtree(height, node)
    return tuple(nodes)


def body_block(size: int, tree: merkle.Accumulator, sha256: str) -> dict[str, Any]:
    """Return the body block of packs: their bytes, and the tree and SHA-256 over all of them."""
    return {"bytes": size, "records": tree.size, "root": tree.root().hex(), "sha256": sha256}


def read_pack_index(data: bytes, block: dict[str, Any]) -> list[PackRow]:
    """Return the rows of a pack index, checked against the body block that they belong to.

    Raises: PackIndexError (DELTA_PACK_INDEX) unless the rows recombine to root, bytes and records; PackLimitError.
    """
    if data and not data.endswith(b"\n"):
        raise PackIndexError("The pack index does not end in LF.", where="pack index")
    rows, tree, size = list[PackRow](), merkle.Accumulator(), 0
    for number, line in enumerate(data.split(b"\n")[:-1]):
        place = f"pack {number}"
        try:
            value = check_pack_row(jsonc.loads(line), place)
        except (PackIndexError, PackLimitError):
            raise
        except DeltaError as error:
            raise PackIndexError(f"{place}: a row of the index is no canonical JSON.", where=place) from error
        nodes = tuple(bytes.fromhex(node) for node in value["nodes"])
        row = PackRow(
            value["bytes"], bytes.fromhex(value["first"]), nodes, value["records"], value["sha256"], tree.size
        )
        heights = merkle.aligned_heights(row.start, row.start + row.records)
        if len(heights) != len(nodes) or (rows and row.first <= rows[-1].first):
            raise PackIndexError(f"{place}: the row does not follow from its place.", where=place)
        for height, node in zip(heights, nodes, strict=True):
            tree.append_subtree(height, node)
        size += row.pack_bytes
        rows.append(row)
    if (tree.size, size, tree.root().hex()) != (block["records"], block["bytes"], block["root"]):
        raise PackIndexError("The pack index does not recombine to the body.", where="pack index")
    return rows


def read_pack(data: bytes, row: PackRow) -> list[Entry]:
    """Return the entries of one pack, proved by its row of a checked index.

    Raises: PackDigestError (DELTA_PACK_DIGEST), GenerationContractError for lines that are no entries.
    """
    entries = parse_pack(data) if hashlib.sha256(data).hexdigest() == row.sha256 else None
    if (
        entries is None
        or len(data) != row.pack_bytes
        or len(entries) != row.records
        or entries[0].sort_key != row.first
    ):
        raise PackDigestError("A pack is not what the index says.", where=f"pack at entry {row.start}")
    if tuple(merkle.aligned_nodes(merkle.leaf_hashes([entry.line for entry in entries]), row.start)) != row.nodes:
        raise PackDigestError("A pack is not proved by its nodes.", where=f"pack at entry {row.start}")
    return entries


def parse_pack(data: bytes) -> list[Entry]:
    """Return the entries of the lines of a pack.

    Raises: GenerationContractError (DELTA_GENERATION_CONTRACT) where a line has not the layout of an entry, or none is
    there.
    """
    entries, end = list[Entry](), 0
    for match in _LINE.finditer(data):
        if match.start() != end:
            break
        end = match.end()
        disposition, previous, row_digest, version, key, reason, sort_key = match.groups()
        entries.append(
            Entry(
                bytes.fromhex(sort_key.decode()),
                match.group(0)[:-1],
                disposition.decode(),
                int(version),
                None if row_digest is None else row_digest.decode(),
                None if previous is None else previous.decode(),
                key,
                None if reason is None else reason.decode(),
            )
        )
    if end != len(data) or not entries:
        raise GenerationContractError("A line of a pack is no entry.", where=f"byte {end}")
    return entries


def packs_of_range(rows: Sequence[PackRow], key_range: KeyBounds) -> Sequence[PackRow]:
    """Return the packs that can hold keys of a range."""
    lower, upper = key_range
    firsts = [row.first for row in rows]
    start = 0 if lower is None else max(0, bisect_right(firsts, lower) - 1)
    return rows[start : len(rows) if upper is None else bisect_left(firsts, upper)]


def read_entries(
    rows: Sequence[PackRow], read: Callable[[str], bytes], key_range: KeyBounds = (None, None)
) -> Iterator[Entry]:
    """Yield the entries of a key range, one pack held at a time; only packs that can hold such keys are read.

    Shape: ``rows`` come from ``read_pack_index``; ``read`` returns a pack's bytes by its digest.
    Raises: as `read_pack`; UnsortedStreamError where entries do not ascend.
    """
    lower, upper = key_range
    last: bytes | None = None
    for row in packs_of_range(rows, key_range):
        for entry in read_pack(read(row.sha256), row):
            if last is not None and entry.sort_key <= last:
                raise UnsortedStreamError(f"entries: key {entry.sort_key.hex()} after {last.hex()}.", where="entries")
            last = entry.sort_key
            if (lower is None or lower <= last) and (upper is None or last < upper):
                yield entry
