"""What one caller may see: published manifests, each with its store and the task that published it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from airflow_delta_provider.core import documents, log
from airflow_delta_provider.core.errors import DeltaError, StoreMissingError
from airflow_delta_provider.core.store.layout import checked_digest
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.core.trust import Trust
from airflow_delta_provider.engine.thresholds import read_measured

TREND_MANIFESTS_MAX = 50
"""Newest manifests of a pair that its trend shows."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One manifest that the caller may see.

    Shape: ``store_id`` names the store in links, empty where there is one only. ``origin`` names the task instance that
    showed it (``dag_id``, ``run_id``, ``task_id``, ``map_index``), empty outside Airflow. ``params`` are what a link to it
    carries besides the digest.
    """

    manifest: str
    store: Store
    store_id: str = ""
    origin: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    trust: Trust | None = None


@dataclass(frozen=True, slots=True)
class SeenPair:
    """One pair and its manifests that the caller may see, oldest first, at most TREND_MANIFESTS_MAX."""

    pair_id: str
    pair: Mapping[str, str]
    manifests: Sequence[Seen]


@dataclass(frozen=True, slots=True)
class Unread:
    """A manifest that could not be read, and why: it is shown as such, for it has no verdict."""

    seen: Seen | None
    name: str
    error: DeltaError


@dataclass(frozen=True, slots=True)
class Approval:
    """A person's answer about a patch. Shape: ``path`` leads to the question; ``chosen`` is empty while it waits."""

    task_id: str
    path: str
    chosen: str = ""
    by: str = ""
    at: str = ""

    def document(self) -> dict[str, str | None]:
        """Return the JSON form."""
        return {"at": self.at or None, "by": self.by or None, "chosen": self.chosen or None, "task_id": self.task_id}


@dataclass(frozen=True, slots=True)
class Event:
    """An asset event that told other Dags of a manifest. Shape: ``path`` leads to the asset."""

    asset: str
    path: str
    at: str

    def document(self) -> dict[str, str]:
        """Return the JSON form."""
        return {"asset": self.asset, "at": self.at}


@dataclass(frozen=True, slots=True)
class Around:
    """What the host knows of the run that showed a manifest, as far as the caller may see it; nothing outside Airflow."""

    approvals: Sequence[Approval] = ()
    events: Sequence[Event] = ()


class Scope(Protocol):
    """Everything that one caller may see. Whatever is not in it is answered as if it did not exist."""

    @property
    def params(self) -> Mapping[str, str]:
        """What every link of a page carries, such as the Dag."""

    def pairs(self) -> tuple[list[SeenPair], list[Unread]]:
        """Return the pairs in the order to show them, and what could not be read."""

    def find(self, manifest_id: str) -> Seen:
        """Return one manifest. Raises: StoreMissingError where the caller may not see it, or there is none."""

    def siblings(self, seen: Seen, pair_id: str) -> Sequence[Seen]:
        """Return the manifests of a pair that the caller may see, oldest first."""

    def around(self, seen: Seen) -> Around:
        """Return what the host knows of the run that showed a manifest."""


class StoreScope:
    """A whole store, for a person who has its files anyway."""

    def __init__(self, store: Store, trust: Trust | None = None) -> None:
        self._store, self._trust = store, trust
        self.params: Mapping[str, str] = {}

    def pairs(self) -> tuple[list[SeenPair], list[Unread]]:
        """Return every pair that has a published manifest, by name, and those of which the log is damaged."""
        found, unread = [], []
        for pair_id, pair in log.list_pairs(self._store).items():
            try:
                seen = self._published(pair_id)
            except DeltaError as error:
                unread.append(Unread(None, pair["name"], error))
                continue
            if seen:
                found.append(SeenPair(pair_id, pair, seen))
        return sorted(found, key=lambda one: tuple(one.pair.values())), unread

    def find(self, manifest_id: str) -> Seen:
        """Return a manifest that a log of the store names."""
        manifest = read_measured(self._store, checked_digest(manifest_id)).manifest
        pair_id = documents.pair_id(**manifest["pair"])
        if log.find(self._store, pair_id, "manifest", manifest_id) is None:
            raise StoreMissingError(f"{manifest_id} was never published here.", where=manifest_id)
        return self._seen(manifest_id)

    def siblings(self, seen: Seen, pair_id: str) -> Sequence[Seen]:
        """Return the newest manifests of a pair, oldest first."""
        return self._published(pair_id)

    def around(self, seen: Seen) -> Around:
        """Return nothing: a store has no host."""
        return Around()

    def _published(self, pair_id: str) -> list[Seen]:
        newest: list[str] = []
        for entry in log.walk_back(self._store, pair_id, log.head(self._store, pair_id)):
            if entry.kind == "manifest" and entry.ref not in newest:
                newest.append(entry.ref)
                if len(newest) == TREND_MANIFESTS_MAX:
                    break
        return [self._seen(digest) for digest in reversed(newest)]

    def _seen(self, digest: str) -> Seen:
        return Seen(digest, self._store, trust=self._trust)
