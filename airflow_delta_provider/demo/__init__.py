"""The flights demo: a real PostgreSQL, a migration that goes wrong, a real Airflow run and a signed manifest."""
