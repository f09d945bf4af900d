"""Text files as bytes of UTF-8: decompressed, decoded, without byte order mark, block by block."""

from __future__ import annotations

import codecs
import lzma
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from airflow_delta_provider.adapters.files.paths import SideFile, reading
from airflow_delta_provider.core.errors import SideFileError, SideLineError, SpecValueError, shown

BLOCK_BYTES = 4 * 1024 * 1024
RECORD_BYTES_MAX = 256 * 1024 * 1024
"""The longest line or record that is held in memory."""
COMPRESSIONS = {
    ".gz": "gzip",
    ".bz2": "bz2",
    ".zst": "zstd",
    ".lz4": "lz4",
    ".br": "brotli",
    ".xz": "xz",
    ".zip": "zip",
}
"""What a second suffix says of text files; ``compression`` in the options says it too."""
_ARROW_CODECS = ("gzip", "bz2", "zstd", "lz4", "brotli")
_SUFFIX_ESTIMATE = 4
"""A compressed text file holds about so many times its bytes: only for estimates of rows."""


def compression_of(file: SideFile, declared: str | None) -> str | None:
    """Return how a file is compressed: as declared, else as its name says; ``none`` says that it is not.

    Raises: SpecValueError for a compression that is not known.
    """
    if declared is None:
        return COMPRESSIONS.get(PurePosixPath(file.name).suffix.lower())
    if declared != "none" and declared not in COMPRESSIONS.values():
        known = ", ".join(["none", *COMPRESSIONS.values()])
        raise SpecValueError(f"compression: {shown(declared)} is none of {known}.", where="compression")
    return None if declared == "none" else declared


def encoding_of(name: str | None) -> str:
    """Return the codec's own name of an encoding; UTF-8 where none is given.

    Raises: SpecValueError for an encoding that is not known.
    """
    try:
        codec = codecs.lookup(name or "utf-8")
    except LookupError:
        raise SpecValueError(f"encoding: {shown(name or '')} is not known.", where="encoding") from None
    if not getattr(codec, "_is_text_encoding", True):
        raise SpecValueError(f"encoding: {shown(name or '')} is no text encoding.", where="encoding")
    return "utf-8" if codec.name == "utf-8-sig" else codec.name


@contextmanager
def opened_text(file: SideFile, compression: str | None) -> Iterator[Any]:
    """Open a file as a stream of decompressed bytes; one that ends in mid-stream is refused when that is read."""
    with reading(file.name), file.open() as raw:
        if compression is None:
            yield raw
        elif compression in _ARROW_CODECS:
            with pa.CompressedInputStream(raw, compression) as stream:
                yield stream
        else:
            with _stdlib_stream(file, raw, compression) as stream:
                yield stream


@contextmanager
def _stdlib_stream(file: SideFile, raw: Any, compression: str) -> Iterator[Any]:
    try:
        if compression == "xz":
            with lzma.open(raw) as stream:
                yield stream
            return
        with zipfile.ZipFile(raw) as archive:
            members = [info for info in archive.infolist() if not info.is_dir()]
            if len(members) != 1:
                raise SideFileError(f"{file.name} holds {len(members)} files; one is wanted.", where=file.name)
            with archive.open(members[0]) as stream:
                yield stream
    except (lzma.LZMAError, zipfile.BadZipFile, EOFError) as error:
        raise SideFileError(f"{file.name} cannot be read: {shown(str(error))}.", where=file.name) from error


def blocks(stream: Any, file: SideFile, encoding: str, size: int) -> Iterator[bytes]:
    """Yield the stream as UTF-8, about ``size`` bytes at a time; a UTF-8 byte order mark is left out.

    UTF-8 itself is passed on unchecked: whoever cuts it into texts checks it there.
    Raises: SideLineError where the bytes are not of the encoding.
    """
    raw = _raw_blocks(stream, size)
    if encoding != "utf-8":
        yield from _transcoded(raw, file, encoding)
        return
    for number, block in enumerate(raw):
        yield block.removeprefix(codecs.BOM_UTF8) if number == 0 else block


def _raw_blocks(stream: Any, size: int) -> Iterator[bytes]:
    while block := stream.read(size):
        yield bytes(block)


def _transcoded(raw: Iterator[bytes], file: SideFile, encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("strict")
    line = 1
    for block in _with_end(raw):
        try:
            text = decoder.decode(block or b"", final=block is None)
        except UnicodeDecodeError as error:
            line += error.object[: error.start].decode(encoding, "replace").count("\n")
            raise bad_encoding(file, line, encoding) from error
        line += text.count("\n")
        if text:
            yield text.encode()


def _with_end(raw: Iterator[bytes]) -> Iterator[bytes | None]:
    yield from raw
    yield None


def bad_encoding(file: SideFile, line: int, encoding: str = "utf-8") -> SideLineError:
    """Return the refusal of a line that is not of the file's encoding."""
    return SideLineError(f"{file.name}, line {line}: the bytes are not valid {encoding.upper()}.", where=file.name)


def estimated_bytes(file: SideFile, compression: str | None) -> int:
    """Return about how many bytes a file holds when it is decompressed."""
    return file.size if compression is None else file.size * _SUFFIX_ESTIMATE
