"""Airflow connections: the store, the signer, the key of keyed digests, and the sides."""
