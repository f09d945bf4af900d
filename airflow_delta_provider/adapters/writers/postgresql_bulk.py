"""PostgreSQL: many changes at once. COPY into temporary tables, then one guarded statement a kind, counted and compared.

Nothing is weaker than row by row: each statement demands key and guard of every row, and gives back whether each row
now holds exactly what was wanted. Where one does not, the whole is taken back and the rows are looked at one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from airflow_delta_provider.adapters.writers.changes import Bulk, CellRefusedError, Change, TakenError, WriteColumn
from airflow_delta_provider.adapters.writers.postgresql_values import bare_type, text_of
from airflow_delta_provider.core.errors import PatchWriteError, ValueLossyError

if TYPE_CHECKING:
    from airflow_delta_provider.adapters.writers.postgresql import PostgresqlWriter

GROUPS_MAX = 16
"""Sets of columns that occur in changes of one kind; more are not worth a table each."""
BLOCK_BYTES = 2**20
LINES_HELD = 2_000
STAGE = "pg_temp.delta_stage"
NEW = "delta_new"
ORDER = ("delete", "update", "insert")
_ESCAPED = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_NULL = "\\N"
_AS_TEXT = ("text", "json_text", "interval")
"""Kinds that are compared as texts."""
_PLAIN = ("int", "decimal", "float32", "float64", "uuid")
"""Kinds whose canonical form PostgreSQL reads as it is and COPY takes unescaped."""
_MOMENT = re.compile(r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:]{8}(\.[0-9]{1,6})?Z?)?")
"""Dates and time stamps that PostgreSQL reads as they are."""

Encoder = Callable[[Any], str]


class _Group:
    """Changes of one kind that set and guard the same columns, one line each in a file."""

    def __init__(self, writer: PostgresqlWriter, change: Change, path: Path) -> None:
        self.op = change.op
        self.path = path
        self.rows = 0
        self._file: BinaryIO = path.open("wb")
        self._held: list[str] = []
        guard = [name for name in change.guard if name not in change.key]
        self.fields = [(f"k{at}", name) for at, name in enumerate(change.key)]
        self.fields += [(f"n{at}", name) for at, name in enumerate(change.values)]
        self.fields += [(f"g{at}", name) for at, name in enumerate(guard)]
        self._keys, self._news, self._olds = (
            [(name, _encoder(writer.columns[name])) for name in names] for names in (change.key, change.values, guard)
        )

    def add(self, change: Change) -> None:
        """Add one change."""
        key, values, guard = change.key, change.values, change.guard
        cells = [encode(key[name]) for name, encode in self._keys]
        cells += [encode(values[name]) for name, encode in self._news]
        cells += [encode(guard[name]) for name, encode in self._olds]
        self._held.append("\t".join(cells))
        self.rows += 1
        if len(self._held) >= LINES_HELD:
            self._flush()

    def close(self) -> None:
        """End writing."""
        self._flush()
        self._file.close()

    def _flush(self) -> None:
        if self._held:
            self._file.write(("\n".join(self._held) + "\n").encode())
            self._held = []


class PostgresqlBulk(Bulk):
    """Changes in files of a folder, ready to be written at once."""

    def __init__(self, writer: PostgresqlWriter, folder: Path) -> None:
        self._writer = writer
        self._folder = folder
        self._groups: dict[Any, _Group] = {}

    def prepare(self, changes: Iterable[Change]) -> bool:
        """Write the files; False where some change wants to be looked at by itself."""
        try:
            for change in changes:
                kind = (change.op, *map(tuple, (change.key, change.values, change.guard)))
                group = self._groups.get(kind)
                if group is None:
                    if len(self._groups) >= GROUPS_MAX:
                        return False
                    group = _Group(self._writer, change, self._folder / f"stage{len(self._groups)}")
                    self._groups[kind] = group
                if None in change.key.values():
                    return False
                group.add(change)
        except ValueLossyError:
            return False
        finally:
            for group in self._groups.values():
                group.close()
        return True

    def run(self) -> bool:
        """Write everything inside the open transaction; False where any row was not as guarded or is not as wanted."""
        ordered = sorted(self._groups.values(), key=lambda group: ORDER.index(group.op))
        try:
            return all(self._run(number, group) for number, group in enumerate(ordered))
        except (CellRefusedError, TakenError, PatchWriteError):
            return False

    def _run(self, number: int, group: _Group) -> bool:
        connection, stage = self._writer.connection, f"{STAGE}{number}"
        columns = ", ".join(f"{mark} {_stage_type(self._writer.columns[name])}" for mark, name in group.fields)
        with self._writer.writing():
            connection.execute(f"CREATE TEMPORARY TABLE {stage} ({columns}) ON COMMIT DROP".encode())
            with (
                group.path.open("rb") as lines,
                connection.cursor() as cursor,
                cursor.copy(f"COPY {stage} FROM STDIN".encode()) as copy,
            ):
                while block := lines.read(BLOCK_BYTES):
                    copy.write(block)
            connection.execute(f"ANALYZE {stage}".encode())
            found = connection.execute(self._statement(group, stage).encode()).fetchone()
        return found is not None and found == (group.rows, group.rows)

    def _statement(self, group: _Group, stage: str) -> str:
        writer = self._writer
        by_mark = {letter: [(m, n) for m, n in group.fields if m[0] == letter] for letter in "kng"}
        if group.op == "insert":
            body = self._insert([*by_mark["k"], *by_mark["n"]], stage)
            checked = [*by_mark["k"], *by_mark["n"]]
            whole = ", ".join(f"{NEW}.{mark}" for mark, _ in checked)
            keys = " AND ".join(self._key_term(mark, name, "w") for mark, name in by_mark["k"])
            same = " AND ".join(self._same(mark, name, "w") for mark, name in checked)
            # INSERT gives back the new row only: it is joined with the wanted one by its key.
            return (
                f"WITH w AS ({body}), d AS (SELECT {same} AS held FROM w JOIN (SELECT {whole} FROM {stage} AS {NEW})"
                f" AS {NEW} ON {keys}) SELECT count(*), count(*) FILTER (WHERE held) FROM d"
            )
        terms = [self._key_term(mark, name) for mark, name in by_mark["k"]]
        terms += [
            self._same(mark, name)
            for mark, name in (*by_mark["k"], *by_mark["g"])
            if mark[0] == "g" or _as_text(writer.columns[name])
        ]
        where = " AND ".join(terms)
        if group.op == "delete":
            body = f"DELETE FROM {writer.aliased()} USING {stage} AS {NEW} WHERE {where} RETURNING true AS held"
        else:
            sets = ", ".join(f"{writer.dialect.quote(name)} = {self._cast(mark, name)}" for mark, name in by_mark["n"])
            held = " AND ".join(self._same(mark, name) for mark, name in by_mark["n"])
            body = f"UPDATE {writer.aliased()} SET {sets} FROM {stage} AS {NEW} WHERE {where} RETURNING {held} AS held"
        return f"WITH d AS ({body}) SELECT count(*), count(*) FILTER (WHERE held) FROM d"

    def _insert(self, fields: Sequence[tuple[str, str]], stage: str) -> str:
        writer = self._writer
        names = ", ".join(writer.dialect.quote(name) for _, name in fields)
        values = ", ".join(self._cast(mark, name) for mark, name in fields)
        always = any(writer.columns[name].always for _, name in fields)
        head = f"INSERT INTO {writer.relation.source} ({names}){' OVERRIDING SYSTEM VALUE' if always else ''}"
        return f"{head} SELECT {values} FROM {stage} AS {NEW} RETURNING {names}"

    def _key_term(self, mark: str, name: str, alias: str = "") -> str:
        return f"{self._field(name, alias)} = {self._cast(mark, name)}"

    def _field(self, name: str, alias: str) -> str:
        return f"{alias}.{self._writer.dialect.quote(name)}" if alias else self._writer.dialect.field(name)

    def _cast(self, mark: str, name: str) -> str:
        return f"CAST({NEW}.{mark} AS {bare_type(self._writer.columns[name])})"

    def _same(self, mark: str, name: str, alias: str = "") -> str:
        """Write that a column holds exactly a staged value, NULL included."""
        column, field = self._writer.columns[name], self._field(name, alias)
        kind = column.type.kind if column.type else ""
        if kind == "text":
            return f'{field}::text COLLATE "C" IS NOT DISTINCT FROM {NEW}.{mark}'
        if _as_text(column):
            return f"{field}::text IS NOT DISTINCT FROM {self._cast(mark, name)}::text"
        return f"{field} IS NOT DISTINCT FROM {NEW}.{mark}"


def _as_text(column: WriteColumn) -> bool:
    kind = column.type
    if kind is not None and kind.kind == "array":
        return kind.item is not None and kind.item.kind in _AS_TEXT
    return kind is not None and kind.kind in _AS_TEXT


def _stage_type(column: WriteColumn) -> str:
    return "text" if _as_text(column) else bare_type(column)


def _encoder(column: WriteColumn) -> Encoder:
    """Return what writes a value of a column as COPY reads it. Raises (when called): ValueLossyError."""
    kind = column.type.kind if column.type else ""

    def escaped(value: Any) -> str:
        return _NULL if value is None else text_of(column, value).translate(_ESCAPED)

    def plain(value: Any) -> str:
        return _NULL if value is None else str(value)

    def moment(value: Any) -> str:
        return str(value) if value is not None and _MOMENT.fullmatch(value) else escaped(value)

    if kind in _PLAIN:
        return plain
    return moment if kind in ("date", "timestamp", "timestamp_tz") else escaped
