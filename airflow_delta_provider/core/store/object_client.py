"""Clients of object storages: addresses and options in, bounded retries and timeouts set, and errors without secrets out."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from airflow_delta_provider.core.errors import (
    ConnectError,
    DeltaError,
    StoreFileError,
    StoreMissingError,
    StoreNotWriteOnceError,
    StoreReadError,
    StoreSchemeError,
    StoreWriteError,
)

REQUEST_TIMEOUT_S = 60
LARGE_REQUEST_TIMEOUT_S = 3600
CONNECT_TIMEOUT_S = 10
RETRIES_MAX = 4
RETRY_TIMEOUT_S = 120
BACKOFF_FIRST_S = 0.1
BACKOFF_LONGEST_S = 10

SCHEMES: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "s3": ("S3Store", "bucket", ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")),
    "gs": ("GCSStore", "bucket", ("GOOGLE_BASE_URL",)),
    "az": ("AzureStore", "container_name", ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")),
}
"""By scheme: the client's class, how it calls its bucket, and the variables that may name a plain http endpoint."""

_ENDPOINTS = ("endpoint", "base_url", "aws_endpoint", "azure_storage_endpoint", "google_base_url")
_STATUS = re.compile(r"status(?: code)?:? (\d{3})\b")
_CODE = re.compile(r"<Code>([A-Za-z]{1,64})</Code>")
_UNABLE = {"NotSupportedError", "NotImplementedError"}  # the client raises them for the storage, by these names
"""Names of the client's errors where a storage has no conditional create: the store is then refused as not write-once."""
_used_in: list[int] = []


@dataclass
class Storage:
    """One bucket with a prefix. Its clients are made at the first use, in the process that uses them."""

    uri: str
    scheme: str
    bucket: str
    prefix: str
    options: Mapping[str, str] = field(repr=False)
    patient: bool = True
    _clients: dict[bool, Any] = field(default_factory=dict, repr=False)

    def client(self, *, patient: bool = False) -> Any:
        """Return the client; the patient one lets a single request last an hour.

        Raises: StoreSchemeError (DELTA_STORE_SCHEME) where the options are none of this storage, or after a fork.
        """
        _refuse_after_fork()
        if patient not in self._clients:
            self._clients[patient] = self._make(LARGE_REQUEST_TIMEOUT_S if patient else REQUEST_TIMEOUT_S)
        return self._clients[patient]

    def _make(self, timeout_s: int) -> Any:
        kind, bucket, variables = SCHEMES[self.scheme]
        places = [self.options.get(name, "") for name in _ENDPOINTS] + [os.environ.get(name, "") for name in variables]
        client_options = {
            "allow_http": self.options.get("allow_http") == "true"
            or any(place.lower().startswith("http://") for place in places),
            "connect_timeout": timedelta(seconds=CONNECT_TIMEOUT_S),
            "timeout": timedelta(seconds=timeout_s),
        }
        retries = {
            "max_retries": RETRIES_MAX,
            "retry_timeout": timedelta(seconds=max(RETRY_TIMEOUT_S, timeout_s)),
            "backoff": {
                "base": 2,
                "init_backoff": timedelta(seconds=BACKOFF_FIRST_S),
                "max_backoff": timedelta(seconds=BACKOFF_LONGEST_S),
            },
        }
        try:
            return getattr(obstore_module("store"), kind)(
                prefix=self.prefix or None,
                client_options=client_options,
                retry_config=retries,
                **{
                    bucket: self.bucket,
                    **{name: value for name, value in self.options.items() if name != "allow_http"},
                },
            )
        except (obstore_module().exceptions.BaseError, ValueError, TypeError) as error:
            reason = type(error).__name__  # the text may hold an option, and so a secret
            raise StoreSchemeError(
                f"{self.uri}: an option of the connection or a variable of the environment is not understood ({reason}).",
                where=self.uri,
            ) from None


def connect(uri: str, options: Mapping[str, str]) -> Storage:
    """Return the storage at an address; nothing is sent yet.

    Raises: StoreSchemeError (DELTA_STORE_SCHEME) for an address with credentials, a query, or no bucket.
    """
    parts = urlsplit(uri)
    if parts.username or parts.password or "@" in parts.netloc or parts.query or parts.fragment:
        raise StoreSchemeError(
            f"A {parts.scheme}:// address is a bucket and a prefix; credentials come from the connection or environment."
        )
    if not parts.netloc:
        raise StoreSchemeError(f"{uri!r} names no bucket.", where=uri)
    prefix = parts.path.strip("/")
    if any(part in ("", ".", "..") for part in prefix.split("/")) and prefix:
        raise StoreSchemeError(f"{uri!r} has a part that is empty, . or ..", where=uri)
    scheme = parts.scheme.lower()
    whole = f"{scheme}://{parts.netloc}/{prefix}".rstrip("/")
    return Storage(whole, scheme, parts.netloc, prefix, options)


def failures() -> tuple[type[Exception], ...]:
    """Return what the client library raises, but for FileNotFoundError."""
    return obstore_module().exceptions.BaseError, RuntimeError


def obstore_module(part: str = "") -> Any:
    """Return the client library. Raises: StoreSchemeError (DELTA_STORE_SCHEME) where it is not installed."""
    try:
        return importlib.import_module(f"obstore.{part}" if part else "obstore")
    except ModuleNotFoundError:
        raise StoreSchemeError(
            "Stores in object storage need obstore: install airflow-delta-provider[object-store]."
        ) from None


def refused(error: Exception, uri: str, path: str, kind: type[StoreReadError] | type[StoreWriteError]) -> DeltaError:
    """Return our error for one of the client; its text has addresses and answers of the server, so it is not shown."""
    names = {one.__name__ for one in type(error).__mro__}
    text = str(error)[:4096]
    status, code = _STATUS.search(text), _CODE.search(text)
    said = " ".join(found[1] for found in (status, code) if found)
    place = f"{uri} {path}".strip()
    if names & _UNABLE or (status and status[1] == "501"):
        return StoreNotWriteOnceError(f"{uri} does not take conditional writes.", where=uri)
    if "InvalidPathError" in names:
        return StoreFileError(f"{place}: a name is none that a store has.", where=path)
    if names & {"PermissionDeniedError", "UnauthenticatedError"}:
        return kind(f"{place}: permission denied{f' ({said})' if said else ''}.", where=path)
    if status and status[1] == "404":
        return StoreMissingError(f"{uri}: the bucket or container is not there.", where=path)
    if status is None:
        return ConnectError(f"{uri} does not answer.", where=uri)
    return kind(f"{place}: the storage answers {said}.", where=path)


def _refuse_after_fork() -> None:
    """The client's threads do not survive a fork, and a request would wait for ever."""
    if not _used_in:
        _used_in.append(os.getpid())
    if _used_in[0] != os.getpid():
        raise StoreSchemeError("Object storage was used before this process was forked: start processes by spawn.")
