"""The files of a folder, by path, by digest and by the format that they state."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, BinaryIO

from airflow_delta_provider.core.errors import InputPathError, StoreMissingError
from airflow_delta_provider.core.ids import sha256_hex

FILE_BYTES_MAX = 256 * 2**20


class Files:
    """All files below a folder; also the artifacts that a verification reads, by digest.

    Shape: ``contents`` maps paths relative to the folder to bytes. ``used`` collects what some case read.
    """

    def __init__(self, contents: dict[str, bytes]) -> None:
        self.contents = contents
        self.used: set[str] = set()
        self._by_digest: dict[str, str] = {}
        for name, data in contents.items():
            self._by_digest.setdefault(sha256_hex(data), name)
        self._parsed = {name: _parse(data) for name, data in contents.items() if name.endswith(".json")}

    def names(self, suffix: str = "") -> list[str]:
        """Return the paths that end in a suffix, sorted."""
        return sorted(name for name in self.contents if name.endswith(suffix))

    def parsed(self, name: str) -> Any:
        """Return what a JSON file holds, None where it does not parse."""
        return self._parsed.get(name)

    def of_format(self, form: str) -> list[str]:
        """Return the paths of documents that state a format."""
        return sorted(
            name
            for name, document in self._parsed.items()
            if isinstance(document, dict) and document.get("format") == form
        )

    def __contains__(self, digest_hex: object) -> bool:
        return digest_hex in self._by_digest

    def name_of(self, digest_hex: str) -> str:
        """Return the path of a file with this digest."""
        if digest_hex not in self._by_digest:
            raise StoreMissingError(f"No file in the folder has the digest {digest_hex}.")
        return self._by_digest[digest_hex]

    def read(self, digest_hex: str) -> bytes:
        """Return the bytes of a file with this digest, which counts as used."""
        name = self.name_of(digest_hex)
        self.used.update(other for other, data in self.contents.items() if data == self.contents[name])
        return self.contents[name]

    def open(self, digest_hex: str) -> BinaryIO:
        """Return a stream over the same bytes."""
        return io.BytesIO(self.read(digest_hex))


def read_files(folder: Path) -> Files:
    """Read all files below a folder; links are not followed.

    Raises: InputPathError (DELTA_INPUT_PATH) where it is no folder, or holds a file of more than 256 MiB.
    """
    if not folder.is_dir():
        raise InputPathError(f"{folder} is no folder.", where=str(folder))
    contents = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        if path.stat().st_size > FILE_BYTES_MAX:
            raise InputPathError(f"{path} has more than {FILE_BYTES_MAX} bytes.", where=str(path))
        contents[path.relative_to(folder).as_posix()] = path.read_bytes()
    return Files(contents)


def _parse(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
