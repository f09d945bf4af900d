"""What the steps of one run leave for each other in the store: the plan, its shards, notes, and the receipt at the end."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.errors import (
    DeltaError,
    InputDigestError,
    InputShardError,
    StoreConflictError,
    StoreMissingError,
)
from airflow_delta_provider.core.plan import KeyRange, tile
from airflow_delta_provider.core.spec import Spec, parse_spec
from airflow_delta_provider.core.store import blobs, layout
from airflow_delta_provider.core.store.store import READ_BYTES_MAX, Store
from airflow_delta_provider.core.submanifest import Shared

PLAN_FORMAT = "delta-plan/1"
SHARD_FORMAT = "delta-shard/1"
PLAN_BYTES_MAX = READ_BYTES_MAX
"""Most bytes of a document of a work folder: a plan of some 500,000 shards."""
_NOTE = b"delta-note/1\0"
_RECEIPT = b"delta-receipt/1\0"


@dataclass(frozen=True, slots=True)
class Plan:
    """What all shards of one plan share.

    Shape: ``spec`` is the specification as it was rendered, ``${ENV}`` unreplaced, so that it holds no secret;
    ``documents`` has the digests of ``schema``, ``contract`` and ``structure``; ``identity`` is that of `Shared`;
    ``shards`` is how many there are; ``planned_ms`` when the plan was made, None without a limit of time; ``on_rerun``
    what a rerun does, as of ``steps.merge``; ``proof`` what the sides held then, in the form of `proved.Proof`, None
    where the specification does not ask; ``request`` is what was asked of the plan, by which later runs find its cuts.
    """

    digest: str
    spec: Spec
    documents: dict[str, str]
    pair: dict[str, str]
    identity: str
    shards: int
    planned_ms: int | None
    on_rerun: str
    proof: dict[str, Any] | None
    request: list[Any]


@dataclass(frozen=True, slots=True)
class Shard:
    """One planned shard: its place in the plan, counted from 0, its key range, and the range for people.

    ``pieces`` tile the range: a shard of several is compared piece by piece, and a retry keeps the finished ones.
    ``proved`` has for each the members of a `proved.Piece`; it is empty where nothing is proved.
    """

    digest: str
    plan: Plan
    number: int
    key_range: KeyRange
    label: str
    pieces: Sequence[KeyRange]
    proved: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Work:
    """The work folder of one unfinished run in a store; ``slot_hex`` is the digest that names the run."""

    store: Store
    slot_hex: str

    def put(self, content: bytes | BinaryIO) -> str:
        """Store bytes, or all bytes of a seekable file, and return their digest."""
        return blobs.put_work(self.store, self.slot_hex, content)

    def get(self, digest_hex: str, limit_bytes: int = PLAN_BYTES_MAX) -> bytes:
        """Return the bytes of an artifact. Raises: InputShardError where it is gone, InputDigestError, StoreConflictError."""
        try:
            return blobs.get_work(self.store, self.slot_hex, digest_hex, limit_bytes)
        except StoreMissingError:
            raise self._gone(digest_hex) from None

    def open(self, digest_hex: str) -> BinaryIO:
        """Return a seekable stream over an artifact; who reads all of it must hash it. Raises: as `get`."""
        try:
            return blobs.open_work(self.store, self.slot_hex, digest_hex)
        except StoreMissingError:
            raise self._gone(digest_hex) from None

    def fetch(self, digest_hex: str, path: Path) -> None:
        """Copy an artifact into a local file, checked against its digest. Raises: as `get`."""
        hasher = hashlib.sha256()
        with self.open(digest_hex) as stream, path.open("wb") as file:
            while chunk := stream.read(blobs.CHUNK_BYTES):
                hasher.update(chunk)
                file.write(chunk)
        if hasher.hexdigest() != digest_hex:
            raise StoreConflictError(f"Stored under {digest_hex}, the bytes hash to {hasher.hexdigest()}.")

    def note(self, about: str, facts: Mapping[str, Any]) -> None:
        """Leave volatile facts about an artifact; the first note stays. No verdict depends on them."""
        self.store.create(self.named(_NOTE, about), jsonc.dumps(dict(facts)))

    def noted(self, about: str) -> dict[str, Any] | None:
        """Return the facts noted about an artifact, None where there are none."""
        return self.facts(self.named(_NOTE, about))

    def facts(self, path: str) -> dict[str, Any] | None:
        """Return the facts that lie under a name, None where there are none."""
        try:
            found = jsonc.loads(self.store.read(path, PLAN_BYTES_MAX))
        except StoreMissingError:
            return None
        return found if isinstance(found, dict) else None

    def named(self, kind: bytes, about: str) -> str:
        """Return the path of what is found by what it is about, and not by its digest."""
        return layout.work_path(self.slot_hex, hashlib.sha256(kind + about.encode()).hexdigest())

    def receipt(self, shards: Sequence[str], parts: Sequence[str]) -> str | None:
        """Return the manifest that a finished merge of these inputs published, None where there was none."""
        try:
            found = self.store.read(self._receipt_path(shards, parts), 64).decode("ascii")
        except StoreMissingError:
            return None
        blobs.get_blob(self.store, layout.checked_digest(found))
        return found

    def finish(self, shards: Sequence[str], parts: Sequence[str], manifest: str, *, keep: set[str]) -> None:
        """Leave a receipt for what was merged, then remove all work but ``keep``, sub-manifests first.

        Killed at any moment, what is left is either all inputs of the merge, or the receipt.
        """
        receipt = self._receipt_path(shards, parts)
        self.store.remove_work(receipt)
        self.store.create(receipt, manifest.encode())
        folder = layout.work_folder(self.slot_hex)
        self.store.remove_work(*(layout.work_path(self.slot_hex, digest) for digest in parts))
        found = [(path, path.rsplit("/", 1)[-1]) for path in self.store.list(folder) if path != receipt]
        self.store.remove_work(*(path for path, name in found if layout.is_digest(name) and name not in keep))

    def _gone(self, digest_hex: str) -> InputShardError:
        return InputShardError(f"{digest_hex} is not in the work folder of this run.", where=digest_hex)

    def _receipt_path(self, shards: Sequence[str], parts: Sequence[str]) -> str:
        return self.named(_RECEIPT, ",".join(sorted(set(shards))) + ";" + ",".join(sorted(set(parts))))


def write_plan(
    work: Work,
    spec: Spec,
    shared: Shared,
    shards: Sequence[Sequence[KeyRange]],
    about: Mapping[str, Any],
    proved: Mapping[KeyRange, Mapping[str, Any]],
) -> tuple[str, list[str]]:
    """Store the shared documents, the plan and its shards; return the digests of the plan, and of the shards in key order.

    ``shards`` holds the pieces of each shard, in key order; ``proved`` what is proved of pieces; ``about`` the members
    ``planned_ms``, ``on_rerun``, ``proof`` and ``request`` of the plan.
    """
    named = {name: blobs.put_blob(work.store, getattr(shared, name)) for name in ("schema", "contract", "structure")}
    plan = work.put(
        jsonc.dumps(
            {
                "documents": named,
                "format": PLAN_FORMAT,
                "identity": shared.identity,
                "pair": dict(shared.context.pair),
                **about,
                "shards": len(shards),
                "spec": json.dumps(spec.form),
            }
        )
    )
    documents = (_shard_bytes(plan, number, pieces, shared, proved) for number, pieces in enumerate(shards))
    return plan, [work.put(document) for document in documents]


def _shard_bytes(
    plan: str, number: int, pieces: Sequence[KeyRange], shared: Shared, proved: Mapping[KeyRange, Mapping[str, Any]]
) -> bytes:
    key_range = KeyRange(pieces[0].lower, pieces[-1].upper)
    return jsonc.dumps(
        {
            "cuts": [piece.document()["lower"] for piece in pieces[1:]],
            "format": SHARD_FORMAT,
            "key_range": key_range.document(),
            "label": key_range.label(shared.key_types),
            "number": number,
            "plan": plan,
            "proved": [proved[piece] for piece in pieces if piece in proved],
        }
    )


def read_shards(work: Work, digests: Iterable[str]) -> list[Shard]:
    """Return planned shards with their plans. Raises: InputShardError (DELTA_INPUT_SHARD), InputDigestError."""
    plans: dict[str, Plan] = {}
    shards = []
    for digest in digests:
        found = read_document(work, digest, SHARD_FORMAT)
        if found["plan"] not in plans:
            plans[found["plan"]] = _read_plan(work, found["plan"])
        bounds = [found["key_range"][side] for side in ("lower", "upper")]
        key_range = KeyRange(*(None if bound is None else bytes.fromhex(bound) for bound in bounds))
        pieces = tile(key_range, [bytes.fromhex(cut) for cut in found["cuts"]])
        shards.append(
            Shard(digest, plans[found["plan"]], found["number"], key_range, found["label"], pieces, found["proved"])
        )
    return shards


def _read_plan(work: Work, digest_hex: str) -> Plan:
    found = read_document(work, digest_hex, PLAN_FORMAT)
    members = ("documents", "pair", "identity", "shards", "planned_ms", "on_rerun", "proof", "request")
    return Plan(digest_hex, parse_spec(json.loads(found["spec"])), *(found[member] for member in members))


def read_document(work: Work, digest_hex: str, kind: str) -> dict[str, Any]:
    """Return a document of the work folder. Raises: InputShardError where it is gone or of another format, InputDigestError."""
    try:
        found = jsonc.loads(work.get(digest_hex))
    except (InputDigestError, InputShardError):
        raise
    except DeltaError as error:
        if error.retryable:
            raise  # a store that does not answer says nothing of the shard
        raise InputShardError(f"{str(digest_hex)[:80]} is no planned shard: {error.message}") from error
    if not isinstance(found, dict) or found.get("format") != kind:
        raise InputShardError(f"{digest_hex} is no document of format {kind}.", where=digest_hex)
    return found
