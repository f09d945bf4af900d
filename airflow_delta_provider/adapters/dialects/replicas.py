"""How far a server's log has got, and whether a replica has replayed it up to there. Nothing is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_delta_provider.core.errors import InputPolicyError, SideSchemeError, shown

Fetch = Callable[[str], Sequence[Sequence[Any]]]
"""Runs one SELECT and returns all its rows."""
POSTGRESQL, MYSQL, MARIADB = "postgresql", "mysql", "mariadb"
_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
_INTERVAL = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_DOMAIN = re.compile(r"([0-9]+)-[0-9]+-([0-9]+)")
_POSTGRESQL_POSITION = (
    "SELECT system_identifier::text, CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn()"
    " ELSE pg_current_wal_lsn() END::text FROM pg_control_system()"
)


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a server's log.

    Shape: ``kind`` is postgresql, mysql or mariadb; ``text`` as the server writes it; ``cluster`` tells PostgreSQL
    clusters apart, whose places cannot be compared. ``dump`` and ``load`` are its form in one text.
    Raises: InputPolicyError (DELTA_INPUT_POLICY) for a text that is no place.
    """

    kind: str
    text: str
    cluster: str = ""

    def __post_init__(self) -> None:
        _PARSERS[self.kind](self.text)

    def reaches(self, other: Position) -> bool:
        """Tell whether everything up to another place has been replayed here.

        Raises: InputPolicyError (DELTA_INPUT_POLICY) where the two are not of one log.
        """
        if (self.kind, self.cluster) != (other.kind, other.cluster):
            raise InputPolicyError("the two servers are no replicas of each other.", where="replica")
        if self.kind == POSTGRESQL:
            return _lsn(self.text) >= _lsn(other.text)
        if self.kind == MARIADB:
            mine = _domains(self.text)
            return all(mine.get(domain, -1) >= last for domain, last in _domains(other.text).items())
        had = _gtids(self.text)
        return all(
            any(first <= lower and upper <= last for first, last in had.get(server, ()))
            for server, intervals in _gtids(other.text).items()
            for lower, upper in intervals
        )

    def dump(self) -> str:
        """Return one text that ``load`` reads."""
        return f"{self.kind} {self.cluster or '-'} {self.text}"

    @classmethod
    def load(cls, text: str) -> Position:
        """Read what ``dump`` wrote. Raises: InputPolicyError (DELTA_INPUT_POLICY)."""
        kind, _, rest = text.partition(" ")
        cluster, _, place = rest.partition(" ")
        if kind not in _PARSERS:
            raise InputPolicyError(f"{shown(text)!r} is no place in a log.", where="position")
        return cls(kind, place, "" if cluster == "-" else cluster)


def read_position(engine: str, fetch: Fetch) -> Position:
    """Return how far a server's log has got; of a replica, how far it has replayed its source's.

    ``engine``: ``postgresql`` (or ``postgres``) or ``mysql``, which is MariaDB too.
    Raises: SideSchemeError for another engine; InputPolicyError where the server keeps no such log; what ``fetch`` raises.
    """
    if engine in ("postgres", POSTGRESQL):
        ((cluster, text),) = fetch(_POSTGRESQL_POSITION)
        if text is None:
            raise InputPolicyError("the replica has replayed nothing yet.", where="replica")
        return Position(POSTGRESQL, str(text), str(cluster))
    if engine != MYSQL:
        raise SideSchemeError(f"{shown(engine)!r} has no log position; postgresql and mysql have.", where="conn_id")
    ((version,),) = fetch("SELECT version()")
    if MARIADB in str(version).lower():
        return Position(MARIADB, _text(fetch("SELECT @@GLOBAL.gtid_current_pos")))
    return Position(MYSQL, _text(fetch("SELECT @@GLOBAL.gtid_executed")))


def demand_logged(position: Position) -> Position:
    """Refuse a source that gives its changes no place: nobody could tell then what a replica lacks.

    Raises: InputPolicyError (DELTA_INPUT_POLICY).
    """
    if not position.text:
        raise InputPolicyError("the source has no GTID position: its binary log is off, or has none.", where="source")
    return position


def _text(rows: Sequence[Sequence[Any]]) -> str:
    found = rows[0][0]
    return (found.decode() if isinstance(found, bytes) else str(found or "")).replace("\n", "").replace(" ", "")


def _lsn(text: str) -> int:
    match = _LSN.fullmatch(text)
    if match is None:
        raise InputPolicyError(f"{shown(text)!r} is no LSN.", where="position")
    return int(match[1], 16) << 32 | int(match[2], 16)


def _gtids(text: str) -> dict[str, list[tuple[int, int]]]:
    """Return the intervals of each server's transactions, joined where they touch."""
    found: dict[str, list[tuple[int, int]]] = {}
    for part in filter(None, text.split(",")):
        names = [name for name in part.split(":") if not _INTERVAL.fullmatch(name)]
        matches = [match for match in map(_INTERVAL.fullmatch, part.split(":")) if match]
        if not names or part.startswith(":") or not matches:
            raise InputPolicyError(f"{shown(text)!r} is no set of GTIDs.", where="position")
        # A tag, where there is one, is a part of the name: its intervals are those behind it.
        name = ""
        for piece in part.split(":"):
            match = _INTERVAL.fullmatch(piece)
            if match is None:
                name = f"{name.partition(':')[0]}:{piece.lower()}" if name else piece.lower()
            else:
                found.setdefault(name, []).append((int(match[1]), int(match[2] or match[1])))
    return {name: _joined(intervals) for name, intervals in found.items()}


def _joined(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for lower, upper in sorted(intervals):
        if joined and lower <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], upper))
        else:
            joined.append((lower, upper))
    return joined


def _domains(text: str) -> dict[int, int]:
    """Return the last transaction of each domain."""
    found: dict[int, int] = {}
    for part in filter(None, text.split(",")):
        match = _DOMAIN.fullmatch(part)
        if match is None:
            raise InputPolicyError(f"{shown(text)!r} is no GTID position.", where="position")
        found[int(match[1])] = max(found.get(int(match[1]), 0), int(match[2]))
    return found


_PARSERS: dict[str, Callable[[str], Any]] = {POSTGRESQL: _lsn, MYSQL: _gtids, MARIADB: _domains}
