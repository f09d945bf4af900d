"""Where evidence lives: write-once stores, their names and what is published into them."""

from airflow_delta_provider.core.store.store import Store, open_store

__all__ = ["Store", "open_store"]
