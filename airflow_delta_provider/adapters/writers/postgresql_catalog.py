"""What PostgreSQL's catalog says about writing a table: generated columns, triggers, cascades, unique keys."""

from __future__ import annotations

from typing import Any

from airflow_delta_provider.adapters.writers.changes import Hazard, Reference, TableFacts

_OF = """
(SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = %(name)s)
"""
_EXTRAS = f"""
SELECT a.attname::text, pg_catalog.to_jsonb(a) ->> 'attgenerated', a.attidentity::text FROM pg_catalog.pg_attribute a
WHERE a.attrelid = {_OF} AND a.attnum > 0 AND NOT a.attisdropped
"""
_TRIGGERS = f"""
SELECT t.tgname::text, t.tgtype::int FROM pg_catalog.pg_trigger t
WHERE t.tgrelid = {_OF} AND NOT t.tgisinternal AND t.tgenabled <> 'D'
"""
_RULES = f"SELECT r.rulename::text, r.ev_type::text FROM pg_catalog.pg_rewrite r WHERE r.ev_class = {_OF} AND r.ev_type <> '1'"
_FOREIGN = f"""
SELECT c.conname::text, c.confdeltype::text, c.confupdtype::text, c.conrelid = c.confrelid, c.condeferrable,
ARRAY(SELECT a.attname::text FROM unnest(c.conkey) WITH ORDINALITY k(n, at) JOIN pg_catalog.pg_attribute a
  ON a.attrelid = c.conrelid AND a.attnum = k.n ORDER BY k.at),
ARRAY(SELECT a.attname::text FROM unnest(c.confkey) WITH ORDINALITY k(n, at) JOIN pg_catalog.pg_attribute a
  ON a.attrelid = c.confrelid AND a.attnum = k.n ORDER BY k.at)
FROM pg_catalog.pg_constraint c WHERE c.contype = 'f' AND c.confrelid = {_OF}
"""
_UNIQUES = f"""
SELECT ARRAY(SELECT a.attname::text FROM unnest(i.indkey) WITH ORDINALITY k(n, at) JOIN pg_catalog.pg_attribute a
  ON a.attrelid = i.indrelid AND a.attnum = k.n WHERE k.at <= i.indnkeyatts ORDER BY k.at)
FROM pg_catalog.pg_index i WHERE i.indrelid = {_OF} AND i.indisunique AND i.indimmediate
"""
_DEFERRABLE = f"""
SELECT pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.conname),
ARRAY(SELECT a.attname::text FROM unnest(c.conkey) WITH ORDINALITY k(n, at) JOIN pg_catalog.pg_attribute a
  ON a.attrelid = c.conrelid AND a.attnum = k.n ORDER BY k.at)
FROM pg_catalog.pg_constraint c JOIN pg_catalog.pg_namespace n ON n.oid = c.connamespace
WHERE c.conrelid = {_OF} AND c.contype IN ('p', 'u', 'x') AND c.condeferrable
"""
_CHILDREN = f"SELECT relhassubclass FROM pg_catalog.pg_class WHERE oid = {_OF}"
_KIND = f"SELECT relkind::text FROM pg_catalog.pg_class WHERE oid = {_OF}"
_BITS = {4: "insert", 8: "delete", 16: "update"}
_RULED = {"2": "update", "3": "insert", "4": "delete"}
_ACTIONS = {"c": "CASCADE", "n": "SET NULL", "d": "SET DEFAULT"}


def relation_kind(connection: Any, parts: tuple[str, ...]) -> str:
    """Return the catalog's letter for what a relation is."""
    return str(_rows(connection, _KIND, parts)[0][0])


def has_children(connection: Any, parts: tuple[str, ...]) -> bool:
    """Tell whether rows of the table may lie in other tables: partitions, or tables that inherit from it."""
    return relation_kind(connection, parts) == "p" or bool(_rows(connection, _CHILDREN, parts)[0][0])


def column_extras(connection: Any, parts: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """Return for each column the letters for being generated and for being an identity, "" for neither."""
    return {name: ((generated or "").strip("\x00"), (identity or "").strip("\x00"))
            for name, generated, identity in _rows(connection, _EXTRAS, parts)}  # fmt: skip


def facts(connection: Any, parts: tuple[str, ...]) -> TableFacts:
    """Return what would write more than a patch says, and what asks for an order of rows."""
    hazards = []
    for name, bits in _rows(connection, _TRIGGERS, parts):
        events = frozenset(event for bit, event in _BITS.items() if bits & bit)
        hazards.append(Hazard(name, "trigger", events))
    for name, letter in _rows(connection, _RULES, parts):
        hazards.append(Hazard(name, "rule", frozenset((_RULED[letter],))))
    references, linked = [], False
    for name, on_delete, on_update, own, deferrable, columns, referenced in _rows(connection, _FOREIGN, parts):
        if on_delete in _ACTIONS:
            hazards.append(Hazard(name, f"ON DELETE {_ACTIONS[on_delete]}", frozenset(("delete",))))
        if on_update in _ACTIONS:
            columns_set = frozenset(referenced)
            hazards.append(Hazard(name, f"ON UPDATE {_ACTIONS[on_update]}", frozenset(("update",)), columns_set))
        linked = linked or (own and deferrable)
        if own and not deferrable:
            references.append(Reference(name, tuple(columns), tuple(referenced)))
    uniques = tuple(tuple(columns) for (columns,) in _rows(connection, _UNIQUES, parts) if columns)
    deferred = tuple(tuple(columns) for _, columns in _rows(connection, _DEFERRABLE, parts) if columns)
    return TableFacts(tuple(hazards), uniques, tuple(references), deferred, linked)


def deferrable(connection: Any, parts: tuple[str, ...]) -> list[str]:
    """Return the quoted names of the unique and exclusion constraints that may be checked at the end."""
    return [str(name) for name, _ in _rows(connection, _DEFERRABLE, parts)]


def _rows(connection: Any, query: str, parts: tuple[str, ...]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = connection.execute(query, {"schema": parts[0], "name": parts[1]}).fetchall()
    return found
