"""Runs whenever a manifest of ``orders`` is published, by whatever Dag: the event carries digest, verdict and counts.

``nightly_replica`` publishes one. Connections: none; the event is all that is read.
"""

from airflow.sdk import dag, task

from airflow_delta_provider.assets import manifest_asset

ORDERS = manifest_asset("orders")


@dag(schedule=[ORDERS], max_active_runs=1, tags=["delta"])
def after_every_verdict():
    @task
    def verdicts(triggering_asset_events=None):
        """Return digest and verdict of each manifest since the last run."""
        return [[event.extra["digest"], event.extra["verdict"]] for event in triggering_asset_events[ORDERS]]

    @task
    def react(found: list):
        """Stands for what follows: release the tables downstream, or hold them back."""

    react.expand(found=verdicts())


after_every_verdict()
