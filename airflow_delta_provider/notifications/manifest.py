"""Tell people what a manifest says: counts, the columns that differ most, and where to look; no values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from airflow_delta_provider._compat import BaseNotifier, Context
from airflow_delta_provider.links import page_address
from airflow_delta_provider.operators.common import STORE_CONN_ID

if TYPE_CHECKING:
    from airflow_delta_provider.engine.thresholds import Measured

COLUMNS_SHOWN = 3


class ManifestNotifier(BaseNotifier):
    """Send a message about a manifest, as ``on_success_callback`` or ``on_failure_callback`` of a task that has one.

    ``ManifestNotifier(lambda text: SlackNotifier(text=text))`` works with each notifier that Airflow's providers have.

    :param channel: given the text, returns the notifier that sends it.
    :param manifest: the manifest id; without it that of the task, such as merge, verify or check (templated).
    :param store_conn_id: connection of type ``delta_store`` (templated).
    """

    template_fields: Sequence[str] = ("manifest", "store_conn_id")

    def __init__(
        self,
        channel: Callable[[str], BaseNotifier],
        *,
        manifest: str | None = None,
        store_conn_id: str = STORE_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.channel = channel
        self.manifest = manifest
        self.store_conn_id = store_conn_id

    def notify(self, context: Context) -> None:
        """Send the message."""
        self.channel(self.message(context)).notify(context)

    def message(self, context: Context) -> str:
        """Return the text; of a task that came to no manifest, that it did not."""
        from airflow_delta_provider.engine.thresholds import read_measured
        from airflow_delta_provider.hooks.store import DeltaStoreHook

        ti: Any = context["ti"]
        manifest = self.manifest or getattr(getattr(ti, "task", None), "manifest", None)
        if not manifest:
            address = page_address("run", {"dag_id": ti.dag_id, "run_id": ti.run_id})
            return f"{ti.dag_id}: task {ti.task_id} of run {ti.run_id} came to no manifest, so there is no verdict.\n{address}"
        measured = read_measured(DeltaStoreHook(self.store_conn_id).get_conn(), manifest)
        address = page_address("manifest", {"manifest": manifest, "dag_id": ti.dag_id, "store": self.store_conn_id})
        return message_of(manifest, measured, address)


def message_of(manifest_id: str, measured: Measured, address: str) -> str:
    """Return what people are told of a manifest."""
    manifest, population = measured.manifest, measured.manifest["population"]
    pair, records = manifest["pair"], manifest["body"]["records"]
    counts = ", ".join(
        f"{manifest['categories'][name]['records']:,} {label}"
        for name, label in (("value_diverged", "diverged"), ("dropped", "dropped"), ("added", "added"))
    )
    lines = [
        f"{pair['name']}: {pair['source']} → {pair['target']}",
        f"{records:,} rows differ ({counts})" if records else "No row differs.",
        f"{population['source']['rows']:,} source rows, {population['target']['rows']:,} target rows, "
        f"{population['unchanged']:,} unchanged",
    ]
    most = sorted((one for one in measured.summary["columns"] if one[1]), key=lambda one: -one[1])[:COLUMNS_SHOWN]
    if most:
        lines.append("Most values diverge in " + ", ".join(f"{name} ({count:,})" for name, count, _ in most))
    findings = len(measured.structure["findings"])
    if findings:
        lines.append(f"{findings:,} schema findings")
    if manifest["key_range"] != {"lower": None, "upper": None}:
        lines.append("Only a part of the key space was compared.")
    return "\n".join([*lines, f"Manifest {manifest_id}", address])
