"""The worked example as something to publish, and any number of runs of its pair that each have a manifest of their own."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from multiprocessing.connection import Connection
from pathlib import Path

from signers import example_signer

from airflow_delta_provider.core import jsonc, log
from airflow_delta_provider.core.signing import envelope_signer
from airflow_delta_provider.core.store import blobs, open_store, slots
from airflow_delta_provider.core.store.publish import Publication, Sign, publish
from airflow_delta_provider.core.store.store import Store

EXAMPLE = Path(__file__).parent / "vectors" / "example"
MANIFEST = "8ee20d554454d865b1186ab0bfabfee6f7c849136273917ec658aa88e0f3becc"
PAIR_ID = log.pair_id_of("orders", "pg:shop.orders", "wh:shop.orders")
PRELOADED = [
    "airflow_delta_provider.core.signing",
    "airflow_delta_provider.core.store.local",
    "airflow_delta_provider.core.store.objects",
    "airflow_delta_provider.core.store.publish",
    "cryptography.hazmat.primitives.asymmetric.ec",
    "cryptography.hazmat.primitives.serialization",
]
"""What a process that publishes imports: none of it starts a thread."""
SLOT = slots.run_slot("dag", "run", "merge", -1)


def read(name: str) -> bytes:
    """Return a file of the example."""
    return (EXAMPLE / name).read_bytes()


@functools.cache
def signer() -> Sign:
    """Return what signs as the example is signed."""
    return envelope_signer(example_signer())


def example(run: str = "run") -> Publication:
    """Return the example."""
    parts = {name: read(f"{name}.json") for name in ("manifest", "schema", "contract", "structure", "summary")}
    return Publication(body=read("body.jsonl"), page_index=read("body.idx"), sidecar={"run": run}, **parts)


def numbered(number: int) -> Publication:
    """Return a run whose tables had ``number`` more equal rows than the example's."""
    manifest = jsonc.loads(read("manifest.json"))
    population = manifest["population"]
    population["unchanged"] += number
    for side in ("source", "target"):
        population[side]["rows"] += number
    return dataclasses.replace(example(f"run-{number}"), manifest=jsonc.dumps(manifest))


def manifest_of(number: int) -> str:
    """Return the id of the manifest of such a run."""
    return hashlib.sha256(numbered(number).manifest).hexdigest()


def slot(number: int) -> str:
    """Return its run slot."""
    return slots.run_slot("dag", f"run-{number}", "merge", -1)


def run_of(store: Store, sidecar: str) -> str:
    """Return the run that a sidecar tells."""
    return str(jsonc.loads(blobs.get_blob(store, sidecar))["run"])


def publish_to(store: Store, number: int) -> None:
    """Publish one of these runs."""
    publish(store, numbered(number), sign=signer(), slot_hex=slot(number))


def publish_many(uri: str, options: dict[str, str], numbers: list[int]) -> None:
    """Publish some of these runs: the work of one process."""
    store = open_store(uri, options)
    for number in numbers:
        publish_to(store, number)


def publish_when_told(there: Connection, uri: str, options: dict[str, str], number: int) -> None:
    """Get ready, say so, wait for the word, and publish one run."""
    open_store(uri, options)
    signer()
    there.send("ready")
    there.recv()
    publish_many(uri, options, [number])
