"""The newest manifest and the newest generation of a pair, for those who wait for one or go on from there."""

from __future__ import annotations

from airflow_delta_provider.core import log
from airflow_delta_provider.core.errors import InputPolicyError, shown
from airflow_delta_provider.core.store.layout import checked_digest, is_pair_id
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.engine.thresholds import read_measured

VERDICTS = ("equal", "different")


def newest_manifest(store: Store, pair: str, verdict: str | None = None, newer_than: str | None = None) -> str | None:
    """Return the newest manifest of a pair, None where there is none, or it is not the one that is waited for.

    ``pair`` is a pair id or a name; ``newer_than`` is a manifest that does not count, nor what was published before it.
    Raises: InputPolicyError (DELTA_INPUT_POLICY) for a name that several pairs have, or an unknown verdict; what the log
    raises.
    """
    if verdict is not None and verdict not in VERDICTS:
        raise InputPolicyError(f"{shown(verdict)!r} is none of {', '.join(VERDICTS)}.", where="verdict")
    if newer_than:
        checked_digest(newer_than)
    pair_id = _pair_id(store, pair)
    if pair_id is None:
        return None
    for entry in log.walk_back(store, pair_id, log.head(store, pair_id)):
        if entry.kind == "manifest":
            if entry.ref == newer_than:
                return None
            manifest = read_measured(store, entry.ref).manifest
            failed = manifest.get("sweep", {}).get("failed", 0)
            found = "different" if manifest["body"]["records"] or failed else "equal"
            return entry.ref if verdict in (None, found) else None
    return None


def newest_generation(store: Store, pair: str) -> str | None:
    """Return the newest generation that a sweep of a pair published, None where there is none. Raises: as above."""
    pair_id = _pair_id(store, pair)
    if pair_id is None:
        return None
    entries = log.walk_back(store, pair_id, log.head(store, pair_id))
    return next((entry.ref for entry in entries if entry.kind == "generation"), None)


def _pair_id(store: Store, pair: str) -> str | None:
    pairs = log.list_pairs(store)
    if is_pair_id(pair) and pair in pairs:
        return pair
    found = [pair_id for pair_id, named in pairs.items() if named["name"] == pair]
    if len(found) > 1:
        raise InputPolicyError(f"{len(found)} pairs are named {shown(pair)!r}; give the id of one.", where="pair")
    return found[0] if found else None
