"""Everything before the first write: rows before, checkpoint and restore body, and the decision about each record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from airflow_delta_provider.adapters.writers.base import Writer
from airflow_delta_provider.core import checkpoint, jsonc
from airflow_delta_provider.core.body import BodyFacts, read_lines
from airflow_delta_provider.core.documents.patch import parse_checkpoint_line
from airflow_delta_provider.core.errors import CheckpointMismatchError, PatchUnsafeError, shown
from airflow_delta_provider.core.patch_rows import StoredRow
from airflow_delta_provider.core.patch_values import reads_otherwise
from airflow_delta_provider.engine.patching.context import Context
from airflow_delta_provider.engine.patching.rows import TouchedRows
from airflow_delta_provider.engine.patching.surroundings import Surroundings

Line = tuple[dict[str, Any], list[Any] | None, dict[str, Any] | None]
"""A record, its row before in clear, and the same row as stored where a restore body has it."""


class Before:
    """The rows before a patch, in local files in the form of the checkpoint's and the restore body.

    ``rows`` reads the written side. ``restored``: a restore body is needed, because the checkpoint does not say all that
    is stored. ``ranges``: the rows around are kept too.
    """

    def __init__(
        self,
        context: Context,
        rows: TouchedRows,
        patch_id: str,
        rule: tuple[str, str | None],
        folder: Path,
        *,
        ranges: bool = False,
    ):
        self.context = context
        self.rows = rows
        self.patch_id = patch_id
        self.rule = rule
        self.points_path, self.restore_path = folder / "checkpoint.jsonl", folder / "restore.jsonl"
        self.points: BodyFacts | None = None
        self.restore: BodyFacts | None = None
        self.restored = _needs_restore(context, rows)
        self.around = Surroundings(context, rows, patch_id, folder) if ranges else None
        self.digest = ""
        self._taken = False

    @property
    def surroundings(self) -> str | None:
        """Digest of the rows around that were kept, or None."""
        return None if self.around is None else self.around.digest

    def take(self) -> None:
        """Read the rows of every record, in one snapshot, and write both bodies."""
        points, restore = checkpoint.LineFile(self.points_path), checkpoint.LineFile(self.restore_path)
        self.rows.writer.begin(write=False)
        try:
            for records in self.context.together(self.context.records()):
                keys = [(bytes.fromhex(record["sort_key"]), self.rows.raw_key(record)) for record in records]
                found = self.rows.read(keys, lock=False)
                row_of = [only(found.get(sort_key)) for sort_key, _ in keys]
                points.write(
                    [
                        checkpoint.checkpoint_line(None if row is None else row.clear, record)
                        for record, row in zip(records, row_of, strict=True)
                    ]
                )
                if self.restored:
                    restore.write(
                        [
                            checkpoint.restore_line(self.raw(row), record["sort_key"])
                            for record, row in zip(records, row_of, strict=True)
                        ]
                    )
            if self.around is not None:
                self.around.take()
        finally:
            self.rows.writer.rollback()
        self.taken(points.close(), restore.close())

    def taken(self, points: BodyFacts, restore: BodyFacts) -> None:
        """Note what is known of both bodies, which were written just now."""
        self.points, self.restore, self._taken = points, restore, True

    def load(self) -> bool:
        """Fetch what an earlier try published; return False where there is no checkpoint yet.

        A checkpoint whose restore body is missing was never followed by a write: the body is taken from the rows now,
        and a row that changed meanwhile is a conflict.
        Raises: CheckpointMismatchError (DELTA_CHECKPOINT_MISMATCH).
        """
        context = self.context
        found = checkpoint.find_checkpoint(context.store, context.pair_id, self.patch_id)
        if found is None:
            return False
        self.digest, header = found
        checkpoint.check_checkpoint(header, context.manifest_id, context.manifest, self.patch_id, context.side)
        restore = checkpoint.find_restore(context.store, context.pair_id, self.patch_id)
        if restore is None and self.restored:
            self.take()
        elif restore is not None:
            self.restored = True
            self._fetch(checkpoint.RESTORE, restore, self.restore_path)
        self._fetch(checkpoint.CHECKPOINT, header["body"]["sha256"], self.points_path)
        self._taken = False
        if self.around is not None and not self.around.resume(self.digest):
            self.rows.writer.begin(write=False)
            try:
                self.around.take()
            finally:
                self.rows.writer.rollback()
        return True

    def publish(self) -> None:
        """Publish checkpoint and restore body, so that writing may begin; what an earlier try published stands.

        Raises: CheckpointMismatchError where another try took a checkpoint of other rows: start again.
        """
        context = self.context
        if not self.digest:
            facts = _demand(self.points)
            self._put(checkpoint.CHECKPOINT, self.points_path, facts.sha256)
            made = checkpoint.publish_checkpoint(
                context.store, context.pair_id, facts, context.manifest_id, self.patch_id, self.rule,
                context.manifest["schema"], context.side,
            )  # fmt: skip
            _, header = checkpoint.demand_checkpoint(context.store, context.pair_id, self.patch_id)
            if header["body"]["sha256"] != facts.sha256:
                raise CheckpointMismatchError(
                    "Another try of this patch took its checkpoint meanwhile; start this one again.",
                    where=self.patch_id,
                )
            self.digest = made
        if self.restored and self.restore is not None:
            self._put(checkpoint.RESTORE, self.restore_path, self.restore.sha256)
            kept = checkpoint.publish_restore(context.store, context.pair_id, self.patch_id, self.restore.sha256)
            if kept != self.restore.sha256:
                raise CheckpointMismatchError(
                    "Another try of this patch took its restore body meanwhile; start this one again.",
                    where=self.patch_id,
                )
        if self.around is not None:
            self.around.publish()
        checkpoint.log_once(context.store, context.pair_id, "checkpoint", self.digest)

    def lines(self) -> Iterator[list[Line]]:
        """Yield every record with its row before, in batches.

        Raises: CheckpointMismatchError where a line is not that of its record.
        """
        with self.points_path.open("rb") as points, _opened(self.restore_path, self.restored) as restore:
            point_lines = _flat(read_lines(points))
            restore_lines = _flat(read_lines(restore)) if self.restored else None
            for records in self.context.records():
                yield [self._line(record, next(point_lines, b""), restore_lines) for record in records]

    def _line(self, record: dict[str, Any], point_line: bytes, restore_lines: Iterator[bytes] | None) -> Line:
        point = orjson.loads(point_line) if self._taken else parse_checkpoint_line(point_line)
        if any(point[member] != record[member] for member in ("id", "key", "sort_key")):
            raise CheckpointMismatchError("A line of the checkpoint is not that of its record.", where=record["id"])
        raw = None
        if restore_lines is not None:
            restore_line = next(restore_lines, b"null")
            restored = orjson.loads(restore_line) if self._taken else jsonc.loads(restore_line)
            if not isinstance(restored, dict) or restored.get("sort_key") != record["sort_key"]:
                raise CheckpointMismatchError(
                    "A line of the restore body is not that of its record.", where=record["id"]
                )
            if restored["raw"] is not None:
                raw = {name: value for name, _, value in restored["raw"]}
        return record, point["before"], raw

    def raw(self, row: StoredRow | None) -> list[list[Any]] | None:
        """Return a row as its line of the restore body holds it."""
        if row is None:
            return None
        return [[name, self.rows.types[name].schema, row.raw[name]] for name in self.rows.names]

    def _put(self, kind: str, path: Path, sha256: str) -> None:
        checkpoint.put_body(self.context.store, self.context.pair_id, kind, path, sha256, self.context.seal_key)

    def _fetch(self, kind: str, sha256: str, path: Path) -> None:
        context = self.context
        checkpoint.fetch_body(context.store, context.pair_id, kind, sha256, context.seal_key, path)


def readable_names(writer: Writer) -> list[str]:
    """Return the columns of a table that have a logical type, in table order."""
    return [name for name, column in writer.columns.items() if column.type is not None]


def demand_whole_rows(writer: Writer) -> None:
    """Refuse a table whose rows could not be restored in full. Raises: PatchUnsafeError (DELTA_PATCH_UNSAFE)."""
    for name, column in writer.columns.items():
        if column.type is None and not column.generated:
            raise PatchUnsafeError(
                f"column {shown(name)} has type {shown(column.read.column.engine_type)}, which cannot be put back:"
                " a deleted row would be lost.",
                where=writer.where,
            )


def _needs_restore(context: Context, rows: TouchedRows) -> bool:
    known = {column.own for column in (*rows.forms.key, *rows.forms.columns)}
    ruled = any(reads_otherwise(column.rules, column.stored, column.schema) for column in rows.forms.columns)
    return context.ruled_key or ruled or any(name not in known for name in rows.names)


def only(found: Sequence[StoredRow] | None) -> StoredRow | None:
    """Return the row of a key; of a repeated key the first in the order of its values, which then is a conflict."""
    if not found:
        return None
    return found[0] if len(found) == 1 else min(found, key=lambda row: jsonc.dumps_checked(_sortable(row.raw)))


def _sortable(raw: Mapping[str, Any]) -> list[Any]:
    return [raw[name] for name in raw]


def _demand(facts: BodyFacts | None) -> BodyFacts:
    if facts is None:
        raise CheckpointMismatchError("The checkpoint was not taken.")
    return facts


def _opened(path: Path, there: bool) -> Any:
    return path.open("rb") if there else Path("/dev/null").open("rb")


def _flat(batches: Iterator[list[bytes]]) -> Iterator[bytes]:
    for batch in batches:
        yield from batch
