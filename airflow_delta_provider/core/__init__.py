"""Canonical form, keys, contract, comparison, manifest, store, patch: no I/O but the store, and no Airflow."""
