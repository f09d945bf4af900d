"""What passes through the seam of writers: changes, facts about a table, and the ways in which a write comes to nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_delta_provider.adapters.dialects.base import ReadColumn
from airflow_delta_provider.adapters.dialects.statement import Value
from airflow_delta_provider.core.errors import DeltaError, PatchWriteError
from airflow_delta_provider.core.types import LogicalType


@dataclass(frozen=True, slots=True)
class Cell(Value):
    """A bound value that is, or is compared with, the value of a column; a preview hides those of sensitive columns."""

    column: str = ""


@dataclass(frozen=True, slots=True)
class WriteColumn:
    """One column of a table that is written to.

    ``generated``: the engine computes it. ``always``: an identity column that takes no value unless told.
    ``on_update``: the engine changes it with every update that does not set it.
    """

    read: ReadColumn
    generated: bool = False
    always: bool = False
    on_update: bool = False

    @property
    def name(self) -> str:
        """The column's name."""
        return self.read.column.name

    @property
    def type(self) -> LogicalType | None:
        """The column's logical type, None where it has none."""
        return self.read.column.type


@dataclass(frozen=True, slots=True)
class Hazard:
    """Something that would write more than a patch says.

    ``events``: on what it acts (``insert``, ``update``, ``delete``). ``columns``: for an update, the columns that set it
    off; empty is any.
    """

    name: str
    kind: str
    events: frozenset[str]
    columns: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key of a table to itself that is checked row by row or statement by statement."""

    name: str
    columns: tuple[str, ...]
    referenced: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What a patch has to know of a table besides its columns.

    ``uniques``: columns of each unique constraint or index that is checked row by row; ``deferred``: of each that is
    checked at the end, unless the writer is told to judge rows one by one. ``references``: foreign keys to the table
    itself for which row order matters; ``linked``: there are some that are checked at the end.
    """

    hazards: tuple[Hazard, ...] = ()
    uniques: tuple[tuple[str, ...], ...] = ()
    references: tuple[Reference, ...] = ()
    deferred: tuple[tuple[str, ...], ...] = ()
    linked: bool = False

    def finds(self, columns: Iterable[str]) -> bool:
        """Tell whether these columns find at most one row, because a unique key is among them."""
        named = set(columns)
        return any(named.issuperset(unique) for unique in self.uniques)

    def one_by_one(self) -> TableFacts:
        """Return the same facts where every unique constraint is checked row by row."""
        return replace(self, uniques=(*self.uniques, *self.deferred), deferred=())


@dataclass(slots=True)
class Change:
    """One row to write. All values are canonical values as the columns store them, by column name.

    ``key``: finds the row. ``values``: what to set or insert. ``guard``: what must stand there; NULL equals NULL.
    """

    op: str
    key: dict[str, Any]
    values: dict[str, Any] = field(default_factory=dict)
    guard: dict[str, Any] = field(default_factory=dict)


class CellRefusedError(Exception):
    """The engine cannot store the values of one change as they are. ``place``: its index in the batch."""

    def __init__(self, place: int, reason: str) -> None:
        super().__init__(reason)
        self.place = place
        self.reason = reason


class ContendedError(Exception):
    """Another writer was in the way; the transaction is lost and may be tried again. ``error`` is the last refusal."""

    def __init__(self, error: DeltaError) -> None:
        super().__init__(str(error))
        self.error = error


class TakenError(ContendedError):
    """Another row holds a unique value that changes need. ``places``: their indexes in the batch; empty: not known."""

    def __init__(self, error: DeltaError, places: Sequence[int] = ()) -> None:
        super().__init__(error)
        self.places = tuple(places)


@dataclass(frozen=True, slots=True)
class RowShape:
    """What changes of one kind are made of: names of the columns that find the row, that are set, and that guard it."""

    op: str
    key: tuple[str, ...]
    values: tuple[str, ...]
    guard: tuple[str, ...]

    @classmethod
    def of(cls, change: Change) -> RowShape:
        """Return the shape of one change; a column that finds the row does not guard it too."""
        guard = tuple(name for name in change.guard if name not in change.key)
        return cls(change.op, tuple(change.key), tuple(change.values), guard)


class Bulk(ABC):
    """Many changes of rows that do not depend on each other, to be written all at once or not at all."""

    @abstractmethod
    def add(self, change: Change) -> bool:
        """Take one change, without a word to the engine; False where it wants to be looked at by itself."""

    @abstractmethod
    def rows(self, shape: RowShape, lines: Sequence[bytes]) -> Sequence[int]:
        """Take many changes of one shape, each as the canonical JSON of its values with commas between.

        Return the places of lines that are not taken, because they want to be looked at one by one.
        """

    @abstractmethod
    def reads(self, name: str, texts: Any) -> bool:
        """Tell whether the engine reads the canonical JSON of a column's values, a large_binary array, as it is."""

    @abstractmethod
    def close(self) -> None:
        """End taking changes."""

    @abstractmethod
    def run(self) -> bool:
        """Write them in the open transaction and look at what stands there then.

        False: some row was not as guarded, or does not hold exactly what is wanted; the caller rolls back.
        Raises: ConnectError, ContendedError.
        """


def write_error(where: str, reason: str) -> PatchWriteError:
    """Return the refusal of a write; ``reason`` names constraints and holds no cell values."""
    return PatchWriteError(f"{where}: {reason}.", where=where)
