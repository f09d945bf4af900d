"""Every week: bring an index up to date with what changed since it was last fed, whatever number of sweeps ago.

Sweeps come from ``nightly_changes``. Connections: ``delta_store_default``. The Airflow Variable ``orders_fed`` holds the
generation that the index is at; it moves on only after the index was fed.
"""

from airflow.sdk import Variable, dag, task


@dag(schedule="@weekly", catchup=False, max_active_runs=1, tags=["delta"])
def feed_index():
    @task
    def newest():
        """Return the digest of the newest generation."""
        from airflow_delta_provider.engine.newest import newest_generation
        from airflow_delta_provider.hooks.store import DeltaStoreHook

        return newest_generation(DeltaStoreHook().get_conn(), "orders")

    @task
    def feed(generation: str):
        """Stands for the index: new, changed and lost keys come once each, with their newest row; all others are reused."""
        from airflow_delta_provider.engine.sweep_changes import changed_keys
        from airflow_delta_provider.hooks.store import DeltaStoreHook

        fed, kinds = Variable.get("orders_fed", default=None), ("added", "value_diverged", "dropped")
        found = changed_keys(DeltaStoreHook().get_conn(), generation, since=fed, whole=fed is None, categories=kinds)
        return sum(1 for one in found if one.key)

    @task
    def remember(generation: str):
        Variable.set("orders_fed", generation)

    generation = newest()
    feed(generation) >> remember(generation)


feed_index()
