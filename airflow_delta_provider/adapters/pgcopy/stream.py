"""The rows of one COPY ... TO STDOUT as blocks: over the connection's library, or straight from its socket."""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from airflow_delta_provider.adapters.pgcopy.block import Block
from airflow_delta_provider.adapters.pgcopy.cells import PAD
from airflow_delta_provider.adapters.pgcopy.form import FormError

SIGNATURE = b"PGCOPY\n\xff\r\n\0"
HEADER_BYTES = len(SIGNATURE) + 8
JOIN_ROWS = 512
"""Rows of the library that are joined at a time: holding more of its small buffers costs more than joining twice."""
WAIT_BYTES = 256 * 1024
"""Bytes that the kernel gathers before it wakes us; a tenth of the system calls, a third of the time."""
WAIT_MS = 5
"""How long it waits for them; then whatever is there is taken."""
CANCEL_TIMEOUT_S = 3
"""How long the server has to take a cancellation."""
DRAIN_TIMEOUT_S = 5
"""How long it then has to end what it was sending; the connection is closed otherwise."""
DRAIN_ROWS = 1 << 20
_DATA, _MESSAGE_HEAD = ord("d"), 5
_ROW_HEAD = _MESSAGE_HEAD + 2
LEAP_BYTES = 16_384
"""Bytes at hand from which on rows are counted off in vectors: measured, 0.6 times as long as one by one; with 4 KiB 2.6
times, with 1 MiB 0.14 times.
"""
_QUIET = frozenset(b"12HNSAC")
"""Messages that carry nothing for us: completions, notices, settings, notifications."""


class Copy(Protocol):
    """One running copy. ``blocks`` is read once; ``stop`` ends it early and leaves the connection ready for a statement."""

    def blocks(self, rows: int, payload_bytes: int) -> Iterator[Block]:
        """Yield blocks of at most ``rows`` rows and about ``payload_bytes``; each is valid until the next one."""
        ...

    def stop(self) -> None:
        """Cancel the statement and read what is left of it."""
        ...


def open_copy(connection: Any, statement: bytes, encrypted: bool) -> Copy:
    """Start a copy on a psycopg connection inside a transaction; the socket is read directly where nothing encrypts it."""
    return LibraryCopy(connection, statement) if encrypted else SocketCopy(connection, statement)


class LibraryCopy:
    """Rows through libpq, which decrypts; one call a row."""

    def __init__(self, connection: Any, statement: bytes) -> None:
        from psycopg import pq

        self._connection = connection
        self._pgconn = connection.pgconn
        self._deadline: float | None = None
        self._poll = select.poll()
        self._poll.register(self._pgconn.socket, select.POLLIN)
        self._pgconn.send_query_params(statement, None, result_format=pq.Format.BINARY)
        self._flush()
        result = self._result()
        if result is None or result.status != pq.ExecStatus.COPY_OUT:
            self._drain(result)
            raise FormError("The server answered a copy statement with something else.")

    def blocks(self, rows: int, payload_bytes: int) -> Iterator[Block]:
        """Yield blocks, joined from messages."""
        parts: list[bytes] = []
        small: list[Any] = []
        sizes: list[int] = []
        held = 0
        head = True
        while (message := self._message()) is not None:
            if head:
                message, head = memoryview(_without_header(bytes(message))), False
            if len(message) <= 2:
                continue  # the header alone, or the trailer
            small.append(message)
            sizes.append(len(message))
            held += len(message)
            if len(small) >= JOIN_ROWS or held >= payload_bytes:
                parts.append(b"".join(small))
                small.clear()
            if len(sizes) >= rows or held >= payload_bytes:
                yield _joined([*parts, *small], sizes)
                parts, small, sizes, held = [], [], [], 0
        if sizes:
            yield _joined([*parts, *small], sizes)
        self._drain(None)

    def stop(self) -> None:
        """Cancel and read to the end; the error that says so is what was asked for."""
        from psycopg import Error

        try:
            self._connection.cancel_safe(timeout=CANCEL_TIMEOUT_S)
            self._deadline = time.monotonic() + DRAIN_TIMEOUT_S
            while self._message() is not None:
                pass
            while self._result() is not None:
                pass
        except (Error, OSError):
            self._pgconn.finish()

    def _message(self) -> Any:
        """Return the next message, or None at the end; waiting doesn't hold other threads up."""
        get = self._pgconn.get_copy_data
        size, message = get(1)
        while size == 0:
            self._wait()
            size, message = get(1)
        return message if size > 0 else None

    def _wait(self) -> None:
        """Wait for input, and no longer than the deadline of a cancelled read."""
        left_s = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        if not self._poll.poll(None if left_s is None else left_s * 1000):
            raise TimeoutError("The server does not end what was cancelled.")
        self._pgconn.consume_input()

    def _flush(self) -> None:
        while self._pgconn.flush():
            select.select([], [self._pgconn.socket], [])

    def _result(self) -> Any:
        while self._pgconn.is_busy():
            self._wait()
        return self._pgconn.get_result()

    def _drain(self, result: Any) -> None:
        from psycopg import pq
        from psycopg.errors import error_from_result

        failed = None
        result = result or self._result()
        while result is not None:
            if result.status == pq.ExecStatus.FATAL_ERROR:
                failed = failed or error_from_result(result)
            result = self._result()
        if failed is not None:
            raise failed


def leap(raw: npt.NDArray[np.uint8], most: int) -> tuple[npt.NDArray[np.int64], int]:
    """Return where whole messages of rows begin, from the first byte on, and where the next message does.

    Every place that might be the head of a row of as many columns as the first one has (and of less than 64 KiB) is found
    at once; those count that are reached from the first one, message by message. The chain ends at a message that looks
    otherwise, and after ``most`` messages.
    """
    if len(raw) < _ROW_HEAD:
        return np.zeros(0, np.int64), 0
    heads = np.flatnonzero(raw[: len(raw) - _ROW_HEAD + 1] == _DATA)
    for number in (1, 2, 5, 6):
        heads = heads[raw[heads + number] == (0 if number < 3 else raw[number])]
    after = heads + 1 + (raw[heads + 3].astype(np.int64) << 8) + raw[heads + 4]
    heads, after = heads[after <= len(raw)], after[after <= len(raw)]
    if not len(heads) or heads[0] != 0:
        return np.zeros(0, np.int64), 0
    breaks = np.flatnonzero(after[:-1] != heads[1:])
    chain, at = [], 0
    while True:
        nth = int(np.searchsorted(breaks, at))
        last = int(breaks[nth]) if nth < len(breaks) else len(heads) - 1
        chain.append(np.arange(at, last + 1))
        at = int(np.searchsorted(heads, after[last]))
        if at == len(heads) or heads[at] != after[last]:
            break
    found = np.concatenate(chain)[:most]
    return (heads[found], int(after[found[-1]])) if len(found) else (heads[:0], 0)


def _joined(parts: list[Any], sizes: list[int]) -> Block:
    ends = np.cumsum(np.array(sizes, np.int64))
    starts = np.zeros(len(sizes), np.int64)
    starts[1:] = ends[:-1]
    return Block(b"".join((*parts, bytes(PAD))), starts, ends)


def _without_header(message: bytes) -> bytes:
    return message[_header_bytes(message) :]


def _header_bytes(message: bytes) -> int:
    """Return the length of the header that the first message begins with.

    Raises: FormError unless it is version 1 of the form without flags.
    """
    if not message.startswith(SIGNATURE) or len(message) < HEADER_BYTES:
        raise FormError("The stream does not begin as a binary copy does.")
    flags, extension = struct.unpack_from(">II", message, len(SIGNATURE))
    if flags:
        raise FormError("The stream has flags that are not known.")
    return HEADER_BYTES + int(extension)


class SocketCopy:
    """Rows straight from an unencrypted connection's socket while the library is idle.

    The library would copy each row twice and hand it over one call at a time; here the kernel fills one large buffer and
    messages are only counted off in it. The statement goes by the extended protocol, so it can only be one. The library
    finds its connection as it left it: inside the same transaction, no bytes left over. Where the exchange breaks, the
    connection is closed, since nobody knows any more where in the stream it stands.
    """

    def __init__(self, connection: Any, statement: bytes) -> None:
        self._connection = connection
        connection.pgconn.consume_input()
        self._socket = socket.socket(fileno=os.dup(connection.pgconn.socket))
        self._socket.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._buffer = bytearray(WAIT_BYTES + PAD)
        self._filled = 0
        self._place = 0
        self._starts: list[int] = []
        self._head = True
        self._deadline: float | None = None
        self._ready = False
        self._failed: tuple[str, str] | None = None
        try:
            self._send(_statement_messages(statement))
            self._wait_for(WAIT_BYTES)
        except OSError:
            self._abandon()
            raise

    def blocks(self, rows: int, payload_bytes: int) -> Iterator[Block]:
        """Yield blocks that lie in the buffer, which the next one overwrites."""
        intact = False
        try:
            while not self._ready:
                self._count_off(rows)
                if len(self._starts) < rows and self._place < payload_bytes and not self._at_end():
                    self._receive(payload_bytes)
                    continue
                block = self._taken()
                intact = True
                if block.rows:
                    yield block
                intact = False
                self._shift()
            intact = True
        finally:
            if not intact:
                self._abandon()
        self._release()
        if self._failed is not None:
            raise _server_error(*self._failed)

    def stop(self) -> None:
        """Cancel and read to the end."""
        if self._socket.fileno() < 0:
            return
        from psycopg import Error

        try:
            self._connection.cancel_safe(timeout=CANCEL_TIMEOUT_S)
        except (Error, OSError):
            self._abandon()  # the server finds nobody left to send to
            return
        self._deadline = time.monotonic() + DRAIN_TIMEOUT_S
        self._shift()
        with suppress(Error, OSError):  # whatever else it says: nobody waits for these rows
            for _ in self.blocks(DRAIN_ROWS, WAIT_BYTES):
                pass

    def _receive(self, payload_bytes: int) -> None:
        """Take what has arrived, into a buffer that grows to one block and beyond it only for a single larger row."""
        room = len(self._buffer) - PAD - self._filled
        if room < WAIT_BYTES // 4:
            wanted = max(
                self._message_end() - len(self._buffer) + PAD + WAIT_BYTES, min(len(self._buffer), payload_bytes)
            )
            grown = bytearray(len(self._buffer) + max(wanted, WAIT_BYTES))
            grown[: self._filled] = memoryview(self._buffer)[: self._filled]
            self._buffer = grown
            room = len(grown) - PAD - self._filled
        view = memoryview(self._buffer)[self._filled : self._filled + room]
        while True:
            self._poll.poll(WAIT_MS)
            try:
                count = self._socket.recv_into(view)
                break
            except BlockingIOError:
                if self._deadline is not None and time.monotonic() > self._deadline:
                    raise TimeoutError("The server does not end what was cancelled.") from None
        if not count:
            raise ConnectionResetError("The server closed the connection.")
        self._filled += count

    def _message_end(self) -> int:
        if self._filled - self._place < _MESSAGE_HEAD:
            return 0
        return self._place + 1 + int.from_bytes(self._buffer[self._place + 1 : self._place + 5], "big")

    def _count_off(self, rows: int) -> None:
        """Note where messages begin: those of the rows at hand in vectors, others one by one."""
        if self._filled - self._place >= LEAP_BYTES and not self._head:
            raw = np.frombuffer(self._buffer, np.uint8)[self._place : self._filled]
            found, ahead = leap(raw, rows - len(self._starts))
            self._starts += (found + self._place).tolist()
            self._place += ahead
        place, starts, buffer = self._place, self._starts, self._buffer
        note, size_at, last = starts.append, _SIZE.unpack_from, self._filled - _MESSAGE_HEAD
        for _ in range(rows - len(starts)):
            if place > last:
                break
            note(place)
            place += size_at(buffer, place)[0] + 1
        if place > self._filled:
            place = starts.pop()
        self._place = place

    def _at_end(self) -> bool:
        return bool(self._starts) and self._buffer[self._starts[-1]] == ord("Z")

    def _taken(self) -> Block:
        """Return the rows among the messages that were counted off, and act on the other messages."""
        raw = np.frombuffer(self._buffer, np.uint8)
        starts = np.array(self._starts, np.int64)
        tags = raw[starts]
        data = tags == _DATA
        for number in np.flatnonzero(~data).tolist():
            self._control(int(tags[number]), self._starts[number])
        ends = np.append(starts[1:], self._place)[data]
        starts = starts[data] + _MESSAGE_HEAD
        if self._head and len(starts):
            starts[0] += _header_bytes(bytes(self._buffer[starts[0] : ends[0]]))
            self._head = False
        rows = ends - starts > 2
        return Block(self._buffer, starts[rows], ends[rows])

    def _control(self, tag: int, place: int) -> None:
        if tag == ord("E"):
            size = _SIZE.unpack_from(self._buffer, place)[0]
            self._failed = _error_fields(bytes(self._buffer[place + 5 : place + 1 + size]))
        elif tag == ord("Z"):
            self._ready = True
        elif tag not in _QUIET and tag != ord("c"):
            raise FormError("The server sent a message that has no place in a copy.")

    def _shift(self) -> None:
        """Move the piece of a message behind the block to the front."""
        left = self._filled - self._place
        self._buffer[:left] = bytes(memoryview(self._buffer)[self._place : self._filled])
        self._filled, self._place = left, 0
        self._starts.clear()

    def _send(self, message: bytes) -> None:
        view = memoryview(message)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                select.select([], [self._socket], [])

    def _wait_for(self, size: int) -> None:
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)

    def _release(self) -> None:
        self._wait_for(1)
        self._socket.close()

    def _abandon(self) -> None:
        self._socket.close()
        self._connection.pgconn.finish()


_SIZE = struct.Struct(">xI")


def _statement_messages(statement: bytes) -> bytes:
    """Return Parse, Bind, Execute and Sync of one statement without parameters."""
    parts = ((b"P", b"\0" + statement + b"\0\0\0"), (b"B", bytes(8)), (b"E", bytes(5)), (b"S", b""))
    return b"".join(tag + struct.pack(">I", len(body) + 4) + body for tag, body in parts)


def _error_fields(body: bytes) -> tuple[str, str]:
    """Return SQLSTATE and text of an error message."""
    fields = {field[:1]: field[1:].decode("utf-8", "replace") for field in body.split(b"\0") if field}
    return fields.get(b"C", ""), fields.get(b"M", "")


def _server_error(state: str, text: str) -> Exception:
    from psycopg import DatabaseError
    from psycopg.errors import lookup

    try:
        return lookup(state)(text)
    except KeyError:
        return DatabaseError(text)
