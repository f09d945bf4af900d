"""Sharded data reconciliation with signed, reproducible delta manifests, as an Apache Airflow provider."""

__version__ = "0.1.0"
