"""From a connection or a path to what a migration tool recorded there."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_delta_provider._compat import BaseHook
from airflow_delta_provider.core.errors import SideReadError, SideSchemeError, SpecFieldError, shown

if TYPE_CHECKING:
    from airflow_delta_provider.engine.migrations import Migrated

DBT, QUERY = "dbt", "query"


@dataclass(frozen=True, slots=True)
class MigrationSource:
    """Where a tool records its migrations.

    Shape: ``tool`` is alembic, django, flyway, liquibase, query or dbt; dbt has ``path`` (a file, or an address of an object
    store under the connection ``conn_id``), the others ``conn_id`` of any database whose hook runs SQL.
    Raises: SpecFieldError (DELTA_SPEC_FIELD) for members that do not go together.
    """

    tool: str
    conn_id: str | None = None
    path: str | None = None
    table: str | None = None
    query: str | None = None

    def __post_init__(self) -> None:
        if (self.tool == DBT) != (self.path is not None):
            raise SpecFieldError("path goes with the tool dbt, and only with it.", where="path")
        if self.tool != DBT and self.conn_id is None:
            raise SpecFieldError(f"The tool {self.tool} needs a conn_id.", where="conn_id")

    @property
    def members(self) -> dict[str, Any]:
        """The members by name, as triggers are stored."""
        return asdict(self)

    @property
    def label(self) -> str:
        """Which migrations these are, in one text without secrets."""
        return "|".join(str(part or "") for part in asdict(self).values())

    def read(self) -> Migrated:
        """Return what is recorded now.

        A database without the tool's table has no migrations yet. Raises: SideSchemeError where the connection's hook runs
        no SQL; SideReadError, which a retry may mend, for a file or a database that cannot be read.
        """
        from airflow_delta_provider.engine.migrations import Migrated, read_database, read_dbt

        if self.path is not None:
            return read_dbt(_file(self.path, self.conn_id))
        connection = BaseHook.get_connection(str(self.conn_id))
        if connection.conn_type == "generic":
            raise SideSchemeError(f"Connection {self.conn_id} is generic: its hook runs no SQL.", where="conn_id")
        hook = connection.get_hook()
        if not hasattr(hook, "get_records"):
            raise SideSchemeError(f"The hook of connection {self.conn_id} runs no SQL.", where="conn_id")

        try:
            return read_database(self.tool, partial(_fetch, hook), table=self.table, query=self.query)
        except SideReadError as error:
            if self.tool == QUERY or not _answers(hook):
                raise
            return Migrated(None, unsettled=f"its table cannot be read: {error.message}")


def _fetch(hook: Any, statement: str) -> Any:
    try:
        return hook.get_records(statement) or []
    except Exception as error:  # each driver has errors of its own, without a common base
        raise SideReadError(f"{type(error).__name__}: {shown(error)}", where="conn_id") from error


def _answers(hook: Any) -> bool:
    try:
        return bool(_fetch(hook, "SELECT 1"))
    except SideReadError:
        return False


def _file(path: str, conn_id: str | None) -> bytes:
    from airflow.sdk import ObjectStoragePath

    from airflow_delta_provider.engine.migrations import RUN_RESULTS_BYTES_MAX

    try:
        with ObjectStoragePath(path, conn_id=conn_id).open("rb") as file:
            data: bytes = file.read(RUN_RESULTS_BYTES_MAX + 1)
    except OSError as error:
        raise SideReadError(f"{path}: {error.strerror or error}.", where="path") from error
    if len(data) > RUN_RESULTS_BYTES_MAX:
        raise SideReadError(f"{path} has more than {RUN_RESULTS_BYTES_MAX} bytes.", where="path")
    return data
