"""Find the files of a side: one file, a pattern or a folder, on this machine or in an object store."""

from __future__ import annotations

import fnmatch
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs as pafs

from airflow_delta_provider.core.errors import InputPathError, SideFileError, SideMissingError, SideSchemeError, shown
from airflow_delta_provider.core.errors.base import SHOWN_CHARS_MAX

HASHED_BYTES = 2**20
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
DELTA_LOG = "_delta_log"
TABLE_FOLDERS = {DELTA_LOG: "Delta Lake", ".hoodie": "Hudi"}
"""Folders that show that the files around them are no plain set: some of them may be removed already."""
METADATA_SUFFIX = ".metadata.json"
VERSION_HINT = "version-hint.text"
_METADATA = re.compile(r"v?(\d+)(?:-.+)?\.metadata\.json")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class SideFile:
    """One file of a side. ``size`` in bytes; ``partitions``: names and texts from folders such as ``year=2024``."""

    fs: Any
    path: str
    size: int
    mtime_ns: int | None
    partitions: tuple[tuple[str, str | None], ...] = ()

    @property
    def name(self) -> str:
        """The file's name without folders: what errors and sidecars show."""
        return PurePosixPath(self.path).name

    def open(self) -> Any:
        """Open for random access, reading only."""
        with reading(self.name):
            return self.fs.open_input_file(self.path)

    def sha256(self) -> str:
        """Return ``sha256:`` and the digest of all bytes of the file, read now."""
        hasher = hashlib.sha256()
        with reading(self.name), self.open() as stream:
            while chunk := stream.read(HASHED_BYTES):
                hasher.update(chunk)
        return f"sha256:{hasher.hexdigest()}"


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn what the reader of a file raises into a refusal that names the file.

    Raises: SideMissingError, InputPathError (no right to read), SideFileError (cut, damaged or of another format).
    """
    try:
        yield
    except FileNotFoundError as error:
        raise SideMissingError(f"There is no file {name}.", where=name) from error
    except (PermissionError, IsADirectoryError) as error:
        raise InputPathError(f"{name} cannot be read: {_reason(error)}.", where=name) from error
    except (pa.ArrowException, OSError, EOFError) as error:
        raise SideFileError(f"{name} cannot be read: {_reason(error)}.", where=name) from error


def _reason(error: Exception) -> str:
    lines = str(error).splitlines()
    return shown(lines[0].rstrip(". ")) if lines else type(error).__name__


def shown_path(path: str) -> str:
    """Return a path as an error may show it: without user, password and query of a URI, and its end where it is long."""
    if _SCHEME.match(path):
        scheme, _, rest = path.partition("://")
        host, slash, below = rest.partition("?")[0].partition("/")
        path = f"{scheme}://{host.rpartition('@')[2]}{slash}{below}"
    return shown(path if len(path) <= SHOWN_CHARS_MAX else f"…{path[-(SHOWN_CHARS_MAX - 1) :]}")


def find_files(path: str) -> tuple[SideFile, ...]:
    """Return the files that a path, pattern or folder names, in the order of their paths; at least one.

    A pattern knows ``*``, ``?``, ``[...]`` and ``**``; a local name that exists is taken as it stands. In folders,
    names that begin with ``_`` or ``.`` are left out (``_SUCCESS``), everything else counts.
    Raises: SideMissingError, InputPathError, SideSchemeError (no such file system; a Delta or Hudi table).
    """
    fs, root, pattern = _split(path)
    with _listing(path):
        if not pattern:
            info = fs.get_file_info(root)
            if info.type == pafs.FileType.File:
                return (_side_file(fs, info, ""),)
            if info.type != pafs.FileType.Directory:
                raise SideMissingError(f"There is no file or folder {shown_path(path)}.", where=shown_path(path))
        _refuse_tables(fs, root)
        found = _folder(fs, root) if not pattern else _matches(fs, root, pattern)
    if not found:
        raise SideMissingError(f"No file matches {shown_path(path)}.", where=shown_path(path))
    return tuple(_side_file(fs, info, root) for info in sorted(found, key=lambda info: str(info.path)))


def table_of(path: str) -> tuple[str, str] | None:
    """Return ``delta`` or ``iceberg`` and the address for its library, where a path names such a table, else None.

    A Delta table is a folder with a log; an Iceberg table a metadata file, or a folder whose ``metadata`` holds some, of
    which ``version-hint.text`` or the highest number tells the newest.
    Raises: SideSchemeError, SideFileError where two metadata files are the newest.
    """
    fs, root, pattern = _split(path)
    if pattern:
        return None
    if root.endswith(METADATA_SUFFIX):
        return "iceberg", _address(path, root)
    try:
        if fs.get_file_info(f"{root}/{DELTA_LOG}").type == pafs.FileType.Directory:
            return "delta", _address(path, root)
        name = _newest_metadata(fs, root)
    except (pa.ArrowException, OSError):
        return None
    return None if name is None else ("iceberg", f"{_address(path, root)}/metadata/{name}")


def _address(path: str, root: str) -> str:
    return path.rstrip("/") if _SCHEME.match(path) else str(Path(root).absolute())


def _newest_metadata(fs: Any, root: str) -> str | None:
    infos = fs.get_file_info(pafs.FileSelector(f"{root}/metadata", allow_not_found=True))
    names = {info.base_name for info in infos}
    numbered: dict[int, list[str]] = {}
    for name in names:
        found = _METADATA.fullmatch(name)
        if found:
            numbered.setdefault(int(found[1]), []).append(name)
    if not numbered:
        return None
    if VERSION_HINT in names:
        with fs.open_input_stream(f"{root}/metadata/{VERSION_HINT}") as stream:
            hint = stream.read(64).decode("utf-8", "replace").strip()
        hinted = next(
            (name for name in (f"v{hint}{METADATA_SUFFIX}", f"{hint}{METADATA_SUFFIX}") if name in names), None
        )
        if hinted is not None:
            return hinted
    newest = numbered[max(numbered)]
    if len(newest) > 1:
        raise SideFileError(
            f"{shown_path(root)} has {len(newest)} newest metadata files: name the one that its catalog names.",
            where=shown_path(root),
        )
    return newest[0]


@contextmanager
def _listing(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise SideMissingError(f"There is no file or folder {shown_path(path)}.", where=shown_path(path)) from error
    except (pa.ArrowException, OSError) as error:
        raise InputPathError(
            f"{shown_path(path)} cannot be listed: {_reason(error)}.", where=shown_path(path)
        ) from error


def _split(path: str) -> tuple[Any, str, str]:
    """Return the file system, the folder or file in front of the first wildcard, and the pattern behind it."""
    if not _SCHEME.match(path):
        fs = pafs.LocalFileSystem()
        if fs.get_file_info(path).type != pafs.FileType.NotFound:
            return fs, path.rstrip("/") or "/", ""
        fixed, pattern = _cut(path, _WILD)
        return fs, fixed or ".", pattern
    address, mark, query = path.partition("?")
    fixed, pattern = _cut(address, re.compile(r"[*\[]"))
    try:
        fs, root = pafs.FileSystem.from_uri(fixed + mark + query)
    except (pa.ArrowException, ValueError, ImportError):
        scheme = path.partition("://")[0]
        raise SideSchemeError(
            f"Files under {scheme}:// cannot be read: there is no such file system here, or the address is not well formed.",
            where=scheme,
        ) from None
    return fs, root.rstrip("/") or "/", pattern


def _cut(path: str, wild: re.Pattern[str]) -> tuple[str, str]:
    parts = path.split("/")
    first = next((index for index, part in enumerate(parts) if wild.search(part)), None)
    if first is None:
        return path, ""
    fixed = "/".join(parts[:first])
    return fixed or ("/" if path.startswith("/") else ""), "/".join(parts[first:])


def _refuse_tables(fs: Any, root: str) -> None:
    folder = PurePosixPath(root)
    if folder.name == "data" and _newest_metadata(fs, str(folder.parent)) is not None:
        raise SideSchemeError(
            "The folder holds the data of an Iceberg table, whose files may hold rows that were removed: name the table.",
            where=shown_path(root),
        )
    infos = fs.get_file_info([f"{root}/{name}" for name in TABLE_FOLDERS])
    for info, (name, table) in zip(infos, TABLE_FOLDERS.items(), strict=True):
        if info.type == pafs.FileType.Directory:
            raise SideSchemeError(
                f"The folder holds {name}: a {table} table, whose files may hold rows that were removed.",
                where=shown_path(root),
            )


def _folder(fs: Any, root: str) -> list[Any]:
    infos = fs.get_file_info(pafs.FileSelector(root, recursive=True))
    return [
        info
        for info in infos
        if info.type == pafs.FileType.File and not any(part[0] in "_." for part in _below(info.path, root))
    ]


def _matches(fs: Any, root: str, pattern: str) -> list[Any]:
    parts = pattern.split("/")
    infos = fs.get_file_info(pafs.FileSelector(root, recursive=len(parts) > 1 or "**" in parts))
    hits = [info for info in infos if _fits(_below(info.path, root), parts)]
    files = [info for info in hits if info.type == pafs.FileType.File]
    if files:
        return files
    return [file for info in hits if info.type == pafs.FileType.Directory for file in _folder(fs, info.path)]


def _below(path: str, root: str) -> list[str]:
    path = path.removeprefix("./")
    base = root.removeprefix("./")
    return [part for part in path.removeprefix("" if base == "." else base).split("/") if part]


def _fits(parts: list[str], pattern: list[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_fits(parts[skip:], pattern[1:]) for skip in range(len(parts) + 1))
    if not parts or (parts[0].startswith(".") and not pattern[0].startswith(".")):
        return False
    return fnmatch.fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])


def _side_file(fs: Any, info: Any, root: str) -> SideFile:
    folders = _below(info.path, root)[:-1] if root else []
    partitions = tuple(_partition(folder) for folder in folders if "=" in folder)
    return SideFile(fs, info.path, info.size or 0, info.mtime_ns, partitions)


def _partition(folder: str) -> tuple[str, str | None]:
    name, _, text = folder.partition("=")
    return unquote(name), None if text == NULL_PARTITION else unquote(text)
