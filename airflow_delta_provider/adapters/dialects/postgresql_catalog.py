"""What PostgreSQL's catalog says of a relation: columns, keys, indexes, sizes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from airflow_delta_provider.adapters.dialects.base import ALIAS, ReadColumn
from airflow_delta_provider.adapters.dialects.postgresql_types import (
    DOMAIN_DEPTH_MAX,
    CatalogType,
    Text,
    catalog_type,
    closed,
    read_column,
)

_RELATION = """
SELECT n.nspname::text, c.relname::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
AND pg_catalog.has_any_column_privilege(c.oid, 'SELECT') AND c.relname = %(name)s
AND CASE WHEN %(schema)s::text IS NULL THEN pg_catalog.pg_table_is_visible(c.oid) ELSE n.nspname = %(schema)s END
AND (%(database)s::text IS NULL OR %(database)s = pg_catalog.current_database())
"""
_OF = """
(SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(name)s)
"""
_COLUMNS = f"""
SELECT a.attname::text, a.atttypid::int8, a.atttypmod, pg_catalog.format_type(a.atttypid, a.atttypmod), NOT a.attnotnull,
a.attnum, a.attcollation::int8
FROM pg_catalog.pg_attribute a WHERE a.attrelid = {_OF} AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_TYPES = """
SELECT t.oid::int8, t.typname::text, n.nspname::text, t.typtype::text, t.typbasetype::int8, t.typtypmod,
CASE WHEN t.typlen = -1 AND EXISTS (SELECT FROM pg_catalog.pg_type e WHERE e.typarray = t.oid) THEN t.typelem ELSE 0 END::int8
FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace WHERE t.oid = ANY (%(numbers)s)
"""
_BY_CODE_POINT = """
SELECT c.oid::int8 FROM pg_catalog.pg_collation c
WHERE c.collname IN ('C', 'POSIX', 'ucs_basic') AND c.collnamespace = 'pg_catalog'::regnamespace
OR c.collprovider = 'c' AND c.collcollate IN ('C', 'POSIX', 'C.UTF-8', 'C.utf8')
OR c.collprovider = 'b' AND pg_catalog.to_jsonb(c) ->> 'colllocale' IN ('C', 'C.UTF-8')
UNION ALL SELECT 100 FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()
AND CASE COALESCE(pg_catalog.to_jsonb(d) ->> 'datlocprovider', 'c')
WHEN 'c' THEN d.datcollate IN ('C', 'POSIX', 'C.UTF-8', 'C.utf8')
WHEN 'b' THEN pg_catalog.to_jsonb(d) ->> 'datlocale' IN ('C', 'C.UTF-8') ELSE false END
"""
_PRIMARY_KEY = f"""
SELECT a.attname::text FROM pg_catalog.pg_index i, pg_catalog.unnest(i.indkey) WITH ORDINALITY AS k(number, place)
JOIN pg_catalog.pg_attribute a ON a.attnum = k.number
WHERE i.indrelid = {_OF} AND a.attrelid = i.indrelid AND i.indisprimary AND k.place <= i.indnkeyatts ORDER BY k.place
"""
_INDEXED = f"""
SELECT EXISTS (SELECT FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid
JOIN pg_catalog.pg_am m ON m.oid = x.relam JOIN pg_catalog.pg_opclass o ON o.oid = i.indclass[0]
WHERE i.indrelid = {_OF} AND i.indisvalid AND i.indpred IS NULL AND m.amname = 'btree' AND o.opcdefault
AND i.indkey[0] = %(number)s AND i.indcollation[0] = %(collation)s)
"""


def relation(connection: Any, way: tuple[str, ...]) -> tuple[str, str] | None:
    """Return schema and name of what one reading of a table name means, where this user may read it."""
    if len(way) > 3:
        return None
    path = dict(zip(("name", "schema", "database"), (*reversed(way), None, None), strict=False))
    found = connection.execute(_RELATION, path).fetchone()
    return (found[0], found[1]) if found else None


def table_columns(connection: Any, parts: tuple[str, ...], field: Callable[[str], str]) -> tuple[ReadColumn, ...]:
    """Return how the columns of a table are read."""
    rows = connection.execute(_COLUMNS, _path(parts)).fetchall()
    types, text = _types(connection, {row[1] for row in rows}), _text(connection)
    return tuple(read_column(types, text, field(row[0]), tuple(row[:5]), (row[5], row[6])) for row in rows)


def query_columns(connection: Any, source: str, field: Callable[[str], str]) -> tuple[ReadColumn, ...]:
    """Return how the columns of a query are read; it runs as one statement that gives no row."""
    from psycopg import pq
    from psycopg.errors import error_from_result

    result = connection.pgconn.exec_params(f"SELECT * FROM {source} AS {ALIAS} LIMIT 0".encode(), None)
    if result.status != pq.ExecStatus.TUPLES_OK:
        raise error_from_result(result)
    places = range(result.nfields)
    names = [(result.fname(at) or b"").decode() for at in places]
    numbers, modifiers = [result.ftype(at) for at in places], [result.fmod(at) for at in places]
    types, text = _types(connection, set(numbers)), _text(connection)
    shown_types = [_shown_type(connection, *each) for each in zip(numbers, modifiers, strict=True)]
    described = zip(names, numbers, modifiers, shown_types, strict=True)
    return tuple(read_column(types, text, field(each[0]), (*each, True), (0, 0)) for each in described)


def primary_key(connection: Any, parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns of the primary key in its order."""
    return tuple(row[0] for row in connection.execute(_PRIMARY_KEY, _path(parts)).fetchall())


def indexed(connection: Any, parts: tuple[str, ...], number: int, collation: int) -> bool:
    """Tell whether a b-tree over all rows starts with this attribute under this collation."""
    path = {**_path(parts), "number": number, "collation": collation}
    return bool(connection.execute(_INDEXED, path).fetchone()[0])


def stored(connection: Any, parts: tuple[str, ...]) -> bool:
    """Tell whether the relation has blocks of its own, or partitions that have."""
    kind = f"SELECT relkind::text FROM pg_catalog.pg_class WHERE oid = {_OF}"
    return connection.execute(kind, _path(parts)).fetchone()[0] in ("r", "p", "m")


def inherited(connection: Any, parts: tuple[str, ...]) -> bool:
    """Tell whether a read of the table also gives rows of others, over which its own constraints do not reach."""
    found = f"SELECT relkind <> 'p' AND relhassubclass FROM pg_catalog.pg_class WHERE oid = {_OF}"
    return bool(connection.execute(found, _path(parts)).fetchone()[0])


def planned_rows(connection: Any, source: str) -> int | None:
    """Return the planner's estimate of a whole read."""
    plan = connection.execute(f"EXPLAIN (FORMAT JSON) SELECT 1 FROM {source} AS {ALIAS}".encode()).fetchone()[0]
    found = json.loads(plan) if isinstance(plan, str) else plan
    return int(found[0]["Plan"]["Plan Rows"])


def encrypted(connection: Any) -> bool:
    """Tell whether TLS or Kerberos encrypts what goes over the connection's socket."""
    if connection.pgconn.ssl_in_use:
        return True
    asked = "SELECT encrypted FROM pg_catalog.pg_stat_gssapi WHERE pid = pg_catalog.pg_backend_pid()"
    found = connection.execute(asked).fetchone()
    return bool(found is None or found[0])


def facts(connection: Any) -> dict[str, Any]:
    """Return version, encoding and snapshot; a standby shows its snapshot without exporting it."""
    shown_facts = """
    SELECT pg_catalog.current_setting('server_version'), pg_catalog.current_setting('server_encoding'),
    pg_catalog.current_setting('lc_monetary'), pg_catalog.txid_current_snapshot()::text,
    CASE WHEN pg_catalog.pg_is_in_recovery() THEN NULL ELSE pg_catalog.pg_export_snapshot() END
    """
    row = connection.execute(shown_facts).fetchone()
    named = zip(("version", "encoding", "lc_monetary", "snapshot", "exported_snapshot"), row, strict=True)
    return {name: value for name, value in named if value is not None}


def _path(parts: tuple[str, ...]) -> dict[str, Any]:
    return {"schema": parts[0], "name": parts[1]}


def _types(connection: Any, numbers: set[int]) -> dict[int, CatalogType]:
    """Return these types and all that they are made of: the base of a domain, the item of an array."""
    known: dict[int, CatalogType] = {}
    for _ in range(2 * DOMAIN_DEPTH_MAX):
        wanted = (numbers | closed(known.values())) - known.keys()
        if not wanted:
            break
        rows = connection.execute(_TYPES, {"numbers": sorted(wanted)}).fetchall()
        known.update({row[0]: catalog_type(row) for row in rows})
    return known


def _text(connection: Any) -> Text:
    encoding = connection.execute("SELECT pg_catalog.current_setting('server_encoding')").fetchone()[0]
    rows = connection.execute(_BY_CODE_POINT).fetchall()
    return Text(encoding, frozenset(row[0] for row in rows))


def _shown_type(connection: Any, number: int, modifier: int) -> str:
    asked = "SELECT pg_catalog.format_type(%s::int8::oid, %s)"
    return str(connection.execute(asked, (number, modifier)).fetchone()[0])
