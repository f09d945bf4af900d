"""The pages and JSON answers over published manifests, without a web framework: Airflow's API server and ``serve`` mount them."""
