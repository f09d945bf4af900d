"""One manifest opened for reading by page: any page alone, any key by bisection, each page proved before it is shown."""

from __future__ import annotations

import hashlib
import io
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar

import orjson

from airflow_delta_provider.core import documents, log
from airflow_delta_provider.core.body import PAGE_RECORDS, LineWriter, read_lines
from airflow_delta_provider.core.documents.manifest import MANIFEST_BYTES_MAX
from airflow_delta_provider.core.errors import BodyDigestError, DeltaError, ManifestDigestError, RecordContractError
from airflow_delta_provider.core.keys import encode_component
from airflow_delta_provider.core.pages import PageIndex, read_page, read_page_index
from airflow_delta_provider.core.store.blobs import get_blob
from airflow_delta_provider.core.store.published import open_page_index
from airflow_delta_provider.core.store.store import READ_BYTES_MAX
from airflow_delta_provider.core.types import LogicalType, from_schema
from airflow_delta_provider.engine.literals import key_literals
from airflow_delta_provider.report.material import Material, load_material
from airflow_delta_provider.web.scope import Seen
from airflow_delta_provider.web.terms import Terms

HEAD_BYTES = 4096
KEPT = 16
"""Opened manifests (their documents and page index, no records) that are kept for the next request."""
_MARK = b',"sort_key":"'
_ID = b',"id":"'
_COLUMNS = b',"columns":'
Kept = TypeVar("Kept")


@dataclass(slots=True)
class Opened:
    """A manifest with its documents, and its body by pages; ``index`` is None where there are no records to show."""

    seen: Seen
    material: Material
    index: PageIndex | None
    terms: Terms

    @property
    def records(self) -> int:
        """How many records can be shown."""
        return 0 if self.index is None else self.index.records

    @property
    def key_types(self) -> list[LogicalType]:
        """The types of the key columns."""
        return [from_schema(kind) for kind in self.material.manifest["key"]["types"]]

    def lines(self, page: int) -> list[bytes]:
        """Return the lines of one page. Raises: PageDigestError (DELTA_PAGE_DIGEST)."""
        if self.index is None:
            return []
        with closing(self.material.open_body()) as body:
            return read_page(body, self.index, page)

    def first_key(self, page: int, index: PageIndex, body: BinaryIO) -> bytes:
        """Return the first key of a page, read alone and unproved: it tells where to look, not what is there."""
        start, end = index.offsets[page : page + 2]
        taken = HEAD_BYTES
        while True:
            body.seek(start)
            head = body.read(min(taken, end - start))
            if _has_key(head):
                return sort_key_of(head)
            if taken >= end - start:
                raise RecordContractError(f"The first line of page {page} has no key.", where=f"page {page}")
            taken *= 8

    def place_of(self, bound: bytes) -> tuple[int, bool]:
        """Return the number of the first record whose key is not below a bound, and whether its key begins with it."""
        if self.index is None or not self.index.pages:
            return 0, False
        with closing(self.material.open_body()) as body:
            low, high = 0, self.index.pages
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if self.first_key(middle, self.index, body) <= bound else (low, middle)
            for page in (low, low + 1):
                if page == self.index.pages:
                    break
                for number, line in enumerate(read_page(body, self.index, page)):
                    key = sort_key_of(line)
                    if key >= bound:
                        return page * PAGE_RECORDS + number, key.startswith(bound)
        return self.index.records, False

    def bound_of(self, texts: Sequence[str]) -> bytes:
        """Return the key bytes of leading key values in canonical text. Raises: SpecValueError where one does not fit."""
        types = self.key_types
        values = key_literals(list(texts), types, "key")
        return b"".join(encode_component(value, kind.kind) for value, kind in zip(values, types, strict=False))


def open_manifest(seen: Seen) -> Opened:
    """Return a manifest, opened; its documents are checked and its page index recombines to the root of its body.

    Raises: what ``load_material`` raises; BodyDigestError (DELTA_BODY_DIGEST) where the body is damaged and no page index
    is stored.
    """
    manifest = documents.parse_manifest(_manifest_bytes(seen))
    newest = log.head(seen.store, documents.pair_id(**manifest["pair"]))
    key = (seen.store.uri, seen.store_id, seen.manifest, -1 if newest is None else newest.seq)
    return Opened(seen, *_RECENT.get(key, lambda: _load(seen)))


def _manifest_bytes(seen: Seen) -> bytes:
    return get_blob(seen.store, seen.manifest, MANIFEST_BYTES_MAX, ManifestDigestError)


def _load(seen: Seen) -> tuple[Material, PageIndex | None, Terms]:
    material = load_material(seen.store, seen.manifest, seen.trust)
    index = None if material.no_body else _index(material)
    return material, index, Terms(0 if index is None else index.pages)


def _index(material: Material) -> PageIndex:
    """Return the page index: the stored one, or one made from the body where there is none that fits."""
    block = material.manifest["body"]
    stored = open_page_index(material.store, material.entries, material.manifest_id)
    if stored is not None:
        with closing(stored):
            data = stored.read(READ_BYTES_MAX)
        try:
            return read_page_index(data, block)
        except DeltaError:
            pass  # derived, and no evidence: what does not fit is made anew
    writer, hasher = LineWriter(_Nowhere()), hashlib.sha256()
    with closing(material.open_body()) as body:
        for lines in read_lines(body, hasher):
            writer.write(lines)
    if hasher.hexdigest() != block["sha256"]:
        raise BodyDigestError("The body does not hash to what the manifest says.", where="body")
    return read_page_index(writer.close().page_index, block)


class _Nowhere(io.BytesIO):
    def write(self, data: Any) -> int:
        """Keep nothing."""
        return len(data)


class Recent:
    """The newest results by key, safe among threads. Two that ask at once may both compute; the results are the same."""

    def __init__(self, kept: int) -> None:
        self._kept, self._lock, self._found = kept, threading.Lock(), OrderedDict[Any, Any]()

    def get(self, key: Any, make: Callable[[], Kept]) -> Kept:
        """Return the result of a key, made where it is not kept."""
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                kept: Kept = self._found[key]
                return kept
        made = make()
        with self._lock:
            self._found[key] = made
            while len(self._found) > self._kept:
                self._found.popitem(last=False)
        return made


_RECENT = Recent(KEPT)


def sort_key_of(line: bytes) -> bytes:
    """Return the key bytes of a line, or of the beginning of one, cut out without parsing it."""
    start = line.index(_MARK) + len(_MARK)
    return bytes.fromhex(line[start : line.index(b'"', start)].decode())


def _has_key(head: bytes) -> bool:
    start = head.find(_MARK)
    return start >= 0 and head.find(b'"', start + len(_MARK)) >= 0


def category_of(line: bytes) -> str:
    """Return the category of a line: it begins with it."""
    return line[13 : line.index(b'"', 13)].decode()


def id_of(line: bytes) -> str:
    """Return the id of a line."""
    start = line.index(_ID) + len(_ID)
    return line[start : line.index(b'"', start)].decode()


def columns_of(line: bytes) -> list[str]:
    """Return the columns in which a line's values diverged, none where it is of a whole row."""
    end = line.index(_ID)
    start = line.find(_COLUMNS, 0, end)
    if start < 0:
        return []
    found: list[str] = orjson.loads(line[start + len(_COLUMNS) : end])
    return found


def all_lines(opened: Opened) -> Iterator[bytes]:
    """Yield every line, page by page, each page proved."""
    for page in range(0 if opened.index is None else opened.index.pages):
        yield from opened.lines(page)
