"""What this package tells Airflow about itself; Airflow reads it on every start, so it imports nothing."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description, in the form of Airflow's ``provider_info.schema.json``."""
    return {
        "package-name": "airflow-delta-provider",
        "name": "Delta manifests",
        "description": "Sharded data reconciliation: signed, byte-reproducible delta manifests.",
    }
