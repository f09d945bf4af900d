"""Rows of the MySQL text protocol as cells: counted off in one buffer, then all rows move through their columns together."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_delta_provider.adapters.dialects.base import CANCEL_TIMEOUT_S, DRAIN_TIMEOUT_S
from airflow_delta_provider.adapters.pgcopy.cells import PAD, Cells, Ints, Mask, gather, lifted

CHUNK_BYTES = 256 * 1024
PIECE_BYTES = 0xFFFFFF
"""A packet of this length goes on in the next one."""
_HEAD = 4
_SIZE = struct.Struct("<I")
_ERROR, _END, _NULL = 0xFF, 0xFE, 0xFB
_END_BYTES_MAX = 9


class ProtocolError(Exception):
    """The server sent bytes that are no rows of the statement; the dialect turns this into a refusal."""


class RowStream:
    """The rows of one statement that runs unbuffered on a PyMySQL connection.

    The driver reads packet after packet and makes an object of every value; here its buffered reader fills one large
    buffer, and the values are lifted out of it column by column. ``stop`` ends a read early.
    """

    def __init__(self, connection: Any, statement: str) -> None:
        from pymysql.connections import MySQLResult
        from pymysql.constants import COMMAND

        self._connection = connection
        connection._execute_command(COMMAND.COM_QUERY, statement)
        self._result = MySQLResult(connection)
        self._result.init_unbuffered_query()
        self._result.unbuffered_active, self._result.connection = False, None  # its rows are ours to read
        self._buffer = bytearray(CHUNK_BYTES + PAD)
        self._filled = 0
        self._direct = False
        self._place = 0
        self._starts: list[int] = []
        self._ended = self._result.field_count == 0
        self._failure = b""

    @property
    def fields(self) -> Any:
        """The driver's descriptions of the columns."""
        return self._result.fields

    def blocks(self, rows: int, payload_bytes: int) -> Iterator[list[Cells]]:
        """Yield the columns of at most ``rows`` rows and about ``payload_bytes``; valid until the next ones."""
        while not self._ended:
            self._count_off(rows)
            if not self._ended and len(self._starts) < rows and self._place < payload_bytes:
                self._receive(payload_bytes)
                continue
            if self._starts:
                yield self._columns()
            self._shift()
        self._finish()

    def stop(self) -> None:
        """Kill the statement from a second connection and read what is left of it."""
        from pymysql.err import Error

        if not self._connection.open:
            return
        try:
            kill(self._connection)
        except (Error, OSError):
            self._connection._force_close()  # the server finds nobody left to send to
            return
        self._connection._sock.settimeout(DRAIN_TIMEOUT_S)
        self._shift()
        try:
            for _ in self.blocks(1 << 20, CHUNK_BYTES):
                pass
        except OSError:
            return  # too slow: the connection is closed
        except Error as error:
            if not self._connection.open or error.args[:1] not in ((1317,), (3024,), (1969,)):
                raise
        self._connection._sock.settimeout(None)

    def _receive(self, payload_bytes: int) -> None:
        room = len(self._buffer) - PAD - self._filled
        if room < CHUNK_BYTES // 4:
            needed = self._packet_end() - len(self._buffer) + PAD + CHUNK_BYTES
            grown = bytearray(len(self._buffer) + max(needed, CHUNK_BYTES, min(len(self._buffer), payload_bytes)))
            grown[: self._filled] = memoryview(self._buffer)[: self._filled]
            self._buffer = grown
            room = len(grown) - PAD - self._filled
        view = memoryview(self._buffer)[self._filled : self._filled + room]
        try:
            count = self._received(view)
        except OSError:
            self._connection._force_close()
            raise
        if not count:
            self._connection._force_close()
            raise ConnectionResetError("The server closed the connection.")
        self._filled += count

    def _received(self, view: memoryview) -> int:
        """Empty the driver's own buffer first, then read past it; its ``readinto1`` would wait for more than it has."""
        reader = self._connection._rfile
        if self._direct:
            return int(reader.raw.readinto(view) or 0)
        self._direct = True
        first = reader.read1(len(view))
        view[: len(first)] = first
        return len(first)

    def _packet_end(self) -> int:
        if self._filled - self._place < _HEAD:
            return 0
        return self._place + _HEAD + int(_SIZE.unpack_from(self._buffer, self._place)[0] & PIECE_BYTES)

    def _count_off(self, rows: int) -> None:
        """Note where rows begin; a row's packets are joined by closing the gap of the headers between them."""
        starts, last = self._starts, self._filled - _HEAD
        place, buffer, size_at = self._place, self._buffer, _SIZE.unpack_from
        for _ in range(rows - len(starts)):
            if place > last:
                break
            size = size_at(buffer, place)[0] & PIECE_BYTES
            after = place + _HEAD + size
            if after > self._filled:
                break
            mark = buffer[place + _HEAD]
            if mark >= _END and (mark == _ERROR or size < _END_BYTES_MAX):
                self._ended = True
                self._failure = bytes(buffer[place + _HEAD : after]) if mark == _ERROR else b""
                break
            if size == PIECE_BYTES:
                self._place = place
                joined = self._joined(place)
                if joined is None:
                    return
                buffer, last, after = self._buffer, self._filled - _HEAD, joined
            starts.append(place + _HEAD)
            place = after
        self._place = place

    def _joined(self, place: int) -> int | None:
        """Take the headers out of a row of several packets; None where not all of it has come."""
        pieces, spot, size = [], place, PIECE_BYTES
        while size == PIECE_BYTES:
            if spot + _HEAD > self._filled:
                return None
            size = _SIZE.unpack_from(self._buffer, spot)[0] & PIECE_BYTES
            if spot + _HEAD + size > self._filled:
                return None
            pieces.append(bytes(self._buffer[spot + _HEAD : spot + _HEAD + size]))
            spot += _HEAD + size
        row = b"".join(pieces)
        end = place + _HEAD + len(row)
        behind = bytes(memoryview(self._buffer)[spot : self._filled])
        self._buffer[place + _HEAD : end + len(behind)] = row + behind
        self._filled = end + len(behind)
        return end

    def _columns(self) -> list[Cells]:
        raw = np.frombuffer(self._buffer, np.uint8)
        at = np.array(self._starts, np.int64)
        columns = []
        for _ in range(self._result.field_count):
            cells = _cells(raw, at)
            columns.append(cells)
            at = cells.at + cells.size
        ends = np.append(np.array(self._starts[1:], np.int64) - _HEAD, self._place)
        if (at != ends).any():
            raise ProtocolError("A row does not end where its last column ends.")
        return columns

    def _shift(self) -> None:
        left = self._filled - self._place
        self._buffer[:left] = bytes(memoryview(self._buffer)[self._place : self._filled])
        self._filled, self._place = left, 0
        self._starts = []

    def _finish(self) -> None:
        from pymysql.err import raise_mysql_exception

        if self._failure:
            raise_mysql_exception(self._failure)


def _cells(raw: Any, at: Ints) -> Cells:
    """Read each value's length: one byte, or a mark and two, three or eight bytes; 251 is NULL."""
    size = raw[at].astype(np.int64)
    if not len(size) or int(size.max()) < _NULL:
        return Cells(raw, at + 1, size, None)
    valid: Mask = size != _NULL
    head = np.ones(len(at), np.int64)
    for mark, dtype, width in ((0xFC, "<u2", 2), (0xFD, "<u4", 3), (0xFE, "<u8", 8)):
        rows = np.flatnonzero(size == mark)
        if len(rows):
            wide = gather(raw, at[rows] + 1, dtype).astype(np.int64)
            size[rows] = wide & PIECE_BYTES if mark == 0xFD else wide
            head[rows] = width + 1
    size[~valid] = 0
    return Cells(raw, at + head, size, None if valid.all() else valid)


def kill(connection: Any) -> None:
    """End the statement that runs on a connection, from another one of the same account."""
    import pymysql

    place = {"unix_socket": connection.unix_socket} if connection.unix_socket else {}
    with pymysql.connect(
        host=connection.host,
        port=connection.port,
        user=connection.user.decode() if isinstance(connection.user, bytes) else connection.user,
        password=connection.password,
        ssl=connection.ctx if connection._secure else None,
        connect_timeout=CANCEL_TIMEOUT_S,
        read_timeout=CANCEL_TIMEOUT_S,
        write_timeout=CANCEL_TIMEOUT_S,
        **place,
    ) as other:
        other.cursor().execute(f"KILL QUERY {connection.thread_id()}")


def cancel(connection: Any, cut: bool) -> None:
    """End the statement that runs on a connection; with ``cut`` shut its socket, which wakes whoever waits for it."""
    from pymysql.err import Error

    with suppress(Error, OSError, AttributeError):  # a connection that is being closed has no socket
        if cut:
            connection._sock.shutdown(socket.SHUT_RDWR)
        else:
            kill(connection)


def texts(cells: Cells) -> pa.Array:
    """Return cells as text, as the connection's character set guarantees it."""
    return lifted(cells, pa.string())


def octets(cells: Cells) -> pa.Array:
    """Return cells as bytes."""
    return lifted(cells, pa.binary())
