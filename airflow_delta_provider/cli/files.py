"""Files that the command line writes: the whole of one or nothing, and never over something else by accident."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from airflow_delta_provider.core.errors import InputPathError

if TYPE_CHECKING:
    from airflow_delta_provider.core.signing.keys import Signer

READ_BYTES_MAX = 64 * 2**20
KEY_BYTES_MAX = 64 * 1024

Write = Callable[[BinaryIO], None]


def write_output(path: str | None, write: Write, *, overwrite: bool = True) -> None:
    """Write to a file, or to stdout where ``path`` is None or ``-``.

    A file appears under its name with all its bytes or not at all: it is written beside its place, synced and renamed.
    On stdout nothing is printed before everything could be made.
    Raises: InputPathError (DELTA_INPUT_PATH) where the file is there and is not to be replaced; OSError.
    """
    if path in (None, "-"):
        with tempfile.TemporaryFile() as file:
            write(file)
            file.seek(0)
            shutil.copyfileobj(file, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        return
    place = Path(str(path))
    if not overwrite and place.exists():
        raise InputPathError(f"{place} exists already.", where=str(place))
    temp = place.with_name(f".{place.name[:100]}.{secrets.token_hex(8)}.tmp")
    try:
        with temp.open("x+b") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temp.replace(place)
    finally:
        temp.unlink(missing_ok=True)  # it has its new name by now, unless something failed


def read_input(path: str, what: str, bytes_max: int = READ_BYTES_MAX) -> bytes:
    """Return the bytes of a file that a person named.

    Raises: InputPathError (DELTA_INPUT_PATH), also for more than ``bytes_max`` bytes.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(bytes_max + 1)
    except OSError as error:
        raise InputPathError(f"{what} {path}: {error.strerror}.", where=path) from error
    if len(data) > bytes_max:
        raise InputPathError(f"{what} {path} has more than {bytes_max} bytes.", where=path)
    return data


def read_signer(text: str) -> Signer:
    """Return the signer that ``--sign`` names: a PEM file of a private key, or the address of a key in a service.

    Raises: SignKeyError, KeyServiceError, InputPathError.
    """
    from airflow_delta_provider.core.signing import load_signer
    from airflow_delta_provider.core.signing.service import ServiceSigner, is_service

    return ServiceSigner(text) if is_service(text) else load_signer(read_input(text, "key", KEY_BYTES_MAX))
