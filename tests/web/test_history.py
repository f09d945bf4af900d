"""One key over the generations of a pair's sweeps: its identity is never forgotten, also where the key is gone."""

from __future__ import annotations

from typing import Any

import orjson
from memory_side import MemorySide, opener, typed

from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.engine.sweep import sweep
from airflow_delta_provider.web.routes import answer
from airflow_delta_provider.web.scope import StoreScope

TYPES = typed(id="int", name="text")


def swept(store: MemoryStore, *rows: tuple[str, str]) -> str:
    """Sweep a table of these rows; return the manifest."""
    spec = parse_spec({"name": "stock", "key": ["id"], "target": {"path": "target"}}, sweep=True)
    return str(sweep(spec, store, opener(None, MemorySide(TYPES, list(rows)))).receipt.manifest)


def test_a_record_shows_what_became_of_its_key_in_each_generation():
    """New, changed, gone and back again: a person sees the whole life of a row beside what differs today."""
    store = MemoryStore()
    swept(store, ("1", "a"), ("2", "a"))
    swept(store, ("1", "a"), ("2", "b"))
    swept(store, ("1", "a"))
    manifest = swept(store, ("1", "a"), ("2", "c"))
    asked = {"manifest": [manifest], "record": ["0"]}
    found: Any = answer("record.json", StoreScope(store), asked).body
    generations = orjson.loads(found)["history"]["generations"]
    assert [(one["generation"], one["disposition"], one.get("version")) for one in generations] == [
        (0, "present", 1),
        (1, "present", 2),
        (2, "absent", 2),
        (3, "present", 3),
    ]
    page: Any = answer("record", StoreScope(store), asked).body
    assert b"This key over generations" in page
    assert generations[3]["row_digest"][:16].encode() in page
