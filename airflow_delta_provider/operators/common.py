"""What the operators share: how refusals end a task, how logs are grouped, and where the tasks of one run meet."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from airflow_delta_provider._compat import AirflowFailException, BaseOperator, Context
from airflow_delta_provider.core.errors import DeltaError, SpecValueError

if TYPE_CHECKING:
    from airflow_delta_provider.core.spec import Spec
    from airflow_delta_provider.engine.killed import Killable
    from airflow_delta_provider.engine.work import Work

STORE_CONN_ID = "delta_store_default"
SHARD_LABEL = "delta_shard"
"""Name in the context under which a mapped task leaves its key range, for ``map_index_template``."""
LABEL_CHARS_MAX = 200


@contextmanager
def refusals_fail_without_retry() -> Iterator[None]:
    """Fail the task at once where a retry cannot help; what a retry may mend is raised as it is, so Airflow retries.

    Raises: AirflowFailException for a DeltaError that is not retryable, with its code and text.
    """
    try:
        yield
    except DeltaError as error:
        if error.retryable:
            raise
        raise AirflowFailException(str(error)) from error


@contextmanager
def log_group(log: Any, title: str) -> Iterator[None]:
    """Fold the lines of one step in the log of a task. Titles and lines hold counts, never values."""
    log.info("::group::%s", title)
    try:
        yield
    finally:
        log.info("::endgroup::")


class DeltaOperator(BaseOperator):
    """Base of the operators that work on the shards of one run.

    The tasks of one run meet in the store's work folder of the task run that merges, so all of them name that task.

    :param merge_task_id: id of the task that merges, its groups' ids included. The merging task itself leaves it out.
    :param store_conn_id: connection of type ``delta_store`` (templated).
    """

    def __init__(self, *, merge_task_id: str | None = None, store_conn_id: str = STORE_CONN_ID, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.merge_task_id = merge_task_id
        self.store_conn_id = store_conn_id
        self._opener: Killable | None = None

    def opener(self) -> Killable:
        """Return what opens the sides of this task, so that ``on_kill`` can end their statements."""
        from airflow_delta_provider.engine.killed import Killable
        from airflow_delta_provider.hooks.sides import open_side

        self._opener = Killable(open_side)
        return self._opener

    def on_kill(self) -> None:
        """Cancel the statements that the servers of both sides run for this task; Airflow calls it when a task is killed."""
        if self._opener is not None:
            self._opener.cancel()

    def work(self, context: Context) -> Work:
        """Return where the tasks of this run meet."""
        from airflow_delta_provider.core.store.slots import run_slot
        from airflow_delta_provider.engine.work import Work
        from airflow_delta_provider.hooks.store import DeltaStoreHook

        ti = context["ti"]
        slot_hex = run_slot(ti.dag_id, ti.run_id, self.merge_task_id or ti.task_id, -1)
        return Work(DeltaStoreHook(self.store_conn_id).get_conn(), slot_hex)


def spec_of(given: Mapping[str, Any] | str, *, sweep: bool = False) -> Spec:
    """Return the specification that an operator was given, rendered: a map, or the text of a YAML file.

    That of a ``sweep`` has a target only.
    Raises: SpecSyntaxError, SpecFieldError, SpecValueError, also for a ``uri`` with a password in clear.
    """
    from airflow_delta_provider.core.spec import parse_spec, parse_yaml
    from airflow_delta_provider.hooks.sides import refuse_passwords

    form = parse_yaml(given.encode(), "spec") if isinstance(given, str) else exact_form(given, "spec")
    spec = parse_spec(form, sweep=sweep)
    refuse_passwords(spec)
    return spec


def sign_with(signer_conn_id: str | None) -> Any:
    """Return what makes the envelope of a manifest with the key of a connection, None where none is named."""
    if not signer_conn_id:
        return None
    from airflow_delta_provider.core.signing import envelope_signer
    from airflow_delta_provider.hooks.signer import DeltaSignerHook

    return envelope_signer(DeltaSignerHook(signer_conn_id).get_conn())


def exact_form(value: Any, where: str) -> Any:
    """Return a value of a Dag file as a specification file would hold it: floats and dates by their text, no tuples.

    Raises: SpecValueError (DELTA_SPEC_VALUE) for what no file can hold.
    """
    if isinstance(value, Mapping):
        return {str(name): exact_form(part, f"{where}.{name}") for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [exact_form(part, where) for part in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return f"{Decimal(repr(value)):f}"
    if isinstance(value, Decimal) and value.is_finite():
        return f"{value:f}"
    if isinstance(value, datetime):
        return value.isoformat() if value.tzinfo is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, date | time):
        return value.isoformat()
    raise SpecValueError(f"{where} is a {type(value).__name__}, which no specification holds.", where=where)


def show_shard(context: Context, label: str) -> None:
    """Let the UI show a mapped task by its key range. The label is no template: it comes from data."""
    values: Any = context
    values[SHARD_LABEL] = label if len(label) <= LABEL_CHARS_MAX else label[: LABEL_CHARS_MAX - 1] + "…"
    values["map_index_template"] = "{{ " + SHARD_LABEL + " }}"
