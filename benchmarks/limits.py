"""What the machine allows: both sides read by the shortest way there is, and nothing done with them.

``python -m benchmarks.limits KIND SIDE...``: each SIDE is a JSON object with ``address``, ``table`` and ``key``; they are
read at the same time, each by a thread of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

BATCH_ROWS = 65_536


def parquet(side: dict[str, Any]) -> None:
    """Decode every column of a file."""
    import pyarrow.parquet as pq

    for _ in pq.ParquetFile(side["address"]).iter_batches(batch_size=BATCH_ROWS):
        pass


def postgresql(side: dict[str, Any], *, ordered: bool = False, hashed: bool = False) -> None:
    """Receive a whole table in the binary form of COPY, or only one sum of the engine's own hashes of its rows."""
    import psycopg2

    class Nowhere:
        def write(self, data: bytes) -> None:
            """Forget the data."""

    rows = f"(SELECT * FROM {side['table']} ORDER BY {', '.join(side['key'])})" if ordered else side["table"]
    connection = psycopg2.connect(side["address"])
    if hashed:
        rows = f"(SELECT sum(hash_record_extended(t, 7)::numeric) FROM {side['table']} AS t)"
    connection.cursor().copy_expert(f"COPY {rows} TO STDOUT (FORMAT binary)", Nowhere())
    connection.close()


def mysql(side: dict[str, Any], *, ordered: bool = True) -> None:
    """Let the plain client write a whole table in key order to nowhere."""
    parts = urlsplit(side["address"])
    password = unquote(parts.password or "")
    with tempfile.NamedTemporaryFile("w", suffix=".cnf") as options, Path(os.devnull).open("wb") as nowhere:
        options.write(
            f'[client]\nhost={parts.hostname}\nport={parts.port}\nuser={parts.username}\npassword="{password}"\n'
        )
        options.flush()
        query = f"SELECT * FROM {side['table']} ORDER BY {', '.join(side['key'])}"
        command = ["mariadb", f"--defaults-extra-file={options.name}", "--quick", "--skip-column-names", "--batch"]
        subprocess.run([*command, parts.path[1:], "-e", query], stdout=nowhere, check=True)


def duckdb(side: dict[str, Any], *, ordered: bool = True) -> None:
    """Receive a whole table in key order as Arrow batches."""
    import duckdb as engine

    with engine.connect(side["address"].removeprefix("duckdb:///"), read_only=True) as connection:
        query = f"SELECT * FROM {side['table']} ORDER BY {', '.join(side['key'])}"
        for _ in connection.execute(query).to_arrow_reader(BATCH_ROWS):
            pass


READERS = {"parquet": parquet, "postgresql": postgresql, "mysql": mysql, "duckdb": duckdb}


def main() -> None:
    """Read all sides at once; two databases of the same kind in one process."""
    sides = [json.loads(text) for text in sys.argv[1:]]
    with ThreadPoolExecutor(len(sides)) as pool:
        for done in [pool.submit(READERS[side["kind"]], side, **side.get("options", {})) for side in sides]:
            done.result()


if __name__ == "__main__":
    main()
