"""Stores for the tests of the command line: the worked example, a hostile table, and the means to damage them."""

from __future__ import annotations

import io
import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from airflow_delta_provider.core.body import LineWriter
from airflow_delta_provider.core.store import open_store
from airflow_delta_provider.core.store.publish import Publication

EXAMPLE = Path(__file__).resolve().parent / "vectors" / "example"
MANIFEST = "8ee20d554454d865b1186ab0bfabfee6f7c849136273917ec658aa88e0f3becc"


@dataclass
class Answer:
    """What one command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        """The one JSON object on stdout."""
        return json.loads(self.out)


def page_index(body):
    writer = LineWriter(io.BytesIO())
    writer.write(body.splitlines())
    return writer.close().page_index


def example(stem=""):
    """Return the publication of the worked example, or of one of its other details."""
    read = {name: (EXAMPLE / f"{name}.json").read_bytes() for name in ("schema", "contract", "structure", "summary")}
    if stem:
        read["contract"] = (EXAMPLE / f"{stem}contract.json").read_bytes()
    body = (EXAMPLE / f"{stem}body.jsonl").read_bytes()
    return Publication(
        manifest=(EXAMPLE / f"{stem}manifest.json").read_bytes(),
        body=body,
        page_index=page_index(body),
        sidecar={"host": "somewhere", "shards": [{"label": "[ .. )", "ms": 3, "records": 4}]},
        **read,
    )


class Folder:
    """A local store with the means to damage it, as somebody with a shell would."""

    def __init__(self, path):
        self.path = Path(path)
        self.store = open_store(str(path))

    def __str__(self):
        return str(self.path)

    def blob(self, digest):
        return self.path / "blobs" / "sha256" / digest[:2] / digest[2:4] / digest

    def log(self, pair_id, seq):
        return self.path / "pairs" / pair_id / "log" / f"{seq:020d}.json"

    def change(self, path, edit):
        data = edit(path.read_bytes())
        path.unlink()
        path.write_bytes(data)
        path.chmod(0o444)


HOSTILE = [
    ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>'),
    ("abc\u202edef\u202c", "abcdef"),
    ("zero\u200bwidth", "zerowidth"),
    ("Zo\u00eb", "Zoe\u0308"),
    ("=cmd|' /C calc'!A0", "+1+1"),
    ("trail", "trail  "),
    ("line1\nline2", "line1\r\nline2"),
    ("nul", "nul\x00"),
    (None, ""),
    ("y" * 70_000, "z" * 70_000),
    ("A" * 30_000 + "x" + "B" * 30_000, "A" * 30_000 + "y" + "B" * 30_000),
    ("'; DROP TABLE t; --", "\\'; DROP TABLE t; --"),
    ("-7", "-8"),
]


def fill(path, rows, columns='id integer primary key, "no<te" text, amount integer'):
    connection = sqlite3.connect(path)
    connection.execute(f"create table t ({columns})")
    connection.executemany("insert into t values (?, ?, ?)", rows)
    connection.commit()
    connection.close()
