"""Reads that break or hang: no verdict from half a stream, no run that cannot be ended."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import proxy as proxies
import pytest
from servers import SLOW

from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.adapters.side import Request, Side
from airflow_delta_provider.core.errors import ConnectError, SideReadError
from airflow_delta_provider.core.spec import SideSpec
from airflow_delta_provider.engine.named import NamedSide, canceller
from airflow_delta_provider.engine.prefetch import Prefetched

PATIENCE_S = 30
"""Far more than a close takes, and far less than for ever."""
MANY = {
    "postgresql": "SELECT g AS id, repeat('x', 200) AS v FROM generate_series(1, 60000) AS g",
    "mysql": "SELECT seq AS id, REPEAT('x', 200) AS v FROM seq_1_to_60000",
    "duckdb": "SELECT a.range AS id, 'x' AS v FROM range(3000000000) AS a WHERE sqrt(a.range) < 0",
    "sqlite": "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT id, 'x' AS v FROM n WHERE id < 0",
}


@pytest.fixture
def line(server: str) -> Iterator[tuple[str, proxies.Proxy]]:
    """The same address through a proxy, and the proxy."""
    parts = urlsplit(server)
    with proxies.proxied(parts.port or 0) as proxy:
        user = parts.netloc.rpartition("@")[0]
        yield urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{proxy.port}")), proxy


def many(uri: str) -> str:
    """Return a query of some megabytes for a server."""
    return MANY[urlsplit(uri).scheme.partition("+")[0]]


def ended(close: Callable[[], None]) -> bool:
    """Run a close and tell whether it came back."""
    thread = threading.Thread(target=close, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    return not thread.is_alive()


def reading(side: Side, rows: int = 1000) -> Prefetched[Any]:
    """Read a side ahead, in small batches."""
    return Prefetched(lambda: side.read(Request(("id", "v"), batch_rows=rows)), "test", canceller(side))


def test_a_line_that_breaks_in_the_middle_gives_no_verdict(line, server, tmp_path: Path, capsys):
    """Exit code 3 and an empty store; with the line up again the same command goes through."""
    from airflow_delta_provider.cli import main

    uri, proxy = line
    form = {
        "name": "broken",
        "source": {"uri": uri, "query": many(uri), "label": "s"},
        "target": {"uri": server, "query": many(server), "label": "t"},
        "key": ["id"],
    }
    (tmp_path / "pair.yaml").write_text(json.dumps(form))
    command = ["run", str(tmp_path / "pair.yaml"), "--store", str(tmp_path / "store"), "--json"]
    proxy.fault, proxy.after_bytes = "drop", 2_000_000
    code, said = main(command), capsys.readouterr()
    assert (code, "DELTA_SIDE_READ" in said.out + said.err) == (3, True)
    assert "source:" in said.out + said.err
    assert list((tmp_path / "store").rglob("entries/*")) == []
    assert [path for path in tmp_path.rglob("*") if path.name.startswith("manifest")] == []
    proxy.fault = None
    assert main(command) == 0


def test_a_read_of_a_server_that_went_silent_can_be_closed(line):
    """The connection is up, cancellations go unanswered, and the run still ends."""
    uri, proxy = line
    with open_side(SideSpec(uri=uri, query=many(uri))) as side:
        _ = side.columns
        proxy.fault, proxy.after_bytes = "stall", 1_000_000
        stream = reading(NamedSide("source", side))
        next(stream)
        assert ended(stream.close)
        assert ended(side.close)


def test_a_read_given_up_on_a_silent_server_ends_without_help(line):
    """Closing the read alone sends its own cancellation, and waits for that no longer than for the rest."""
    uri, proxy = line
    with open_side(SideSpec(uri=uri, query=many(uri))) as side:
        batches = side.read(Request(("id", "v"), batch_rows=1000))
        next(batches)
        proxy.fault, proxy.after_bytes = "stall", 0
        assert ended(lambda: closing(batches).__exit__(None, None, None))


def test_a_long_statement_is_cancelled_and_the_side_goes_on(server):
    """A refusal elsewhere must not wait for a query of an hour, and the counts of that refusal are read after it."""
    with open_side(SideSpec(uri=server, query=SLOW[urlsplit(server).scheme])) as side:
        _ = side.columns
        stream = reading(side)
        assert ended(stream.close)
        assert threading.active_count() < 50
        assert side.facts()["engine"] in SLOW


@pytest.mark.parametrize("engine", ["duckdb", "sqlite"])
def test_a_long_query_of_an_embedded_engine_is_interrupted(engine, tmp_path: Path):
    """They compute in this process; nobody else can stop them."""
    path = tmp_path / "a.db"
    if engine == "duckdb":
        import duckdb

        duckdb.connect(str(path)).close()
    else:
        path.touch()
    with open_side(SideSpec(uri=f"{engine}:///{path}", query=MANY[engine] + " LIMIT 10")) as side:
        resolved = _columns_of(side, engine)
        stream = reading(resolved)
        assert ended(stream.close)


def _columns_of(side: Any, engine: str) -> Any:
    """Describe the query; SQLite would run all of it for that, so its columns are given."""
    if engine == "sqlite":
        import pyarrow as pa

        from airflow_delta_provider.adapters.dialects.base import ReadColumn
        from airflow_delta_provider.adapters.side import Column
        from airflow_delta_provider.core.types import LogicalType

        side._opened()
        kinds = {"id": ("int", pa.int64()), "v": ("text", pa.string())}
        side._read_columns = tuple(
            ReadColumn(Column(name, LogicalType(kind), kind), f'delta_side."{name}"', arrow)
            for name, (kind, arrow) in kinds.items()
        )
    else:
        _ = side.columns
    return side


def test_a_statement_timeout_of_the_address_ends_a_read(server):
    """Whoever may not block a production server for long says so in one place."""
    uri = server + ("&" if "?" in server else "?") + "statement_timeout_s=0.5"
    with open_side(SideSpec(uri=uri, query=SLOW[urlsplit(server).scheme])) as side:
        _ = side.columns
        with pytest.raises(SideReadError):
            list(side.read(Request(("id", "v"))))


@pytest.mark.parametrize("value", ["0", "-1", "soon", "inf", ""])
def test_a_statement_timeout_that_is_none_is_refused(server, value):
    """Without the limit that was meant, nothing is read."""
    uri = server + ("&" if "?" in server else "?") + f"statement_timeout_s={value}"
    with (
        open_side(SideSpec(uri=uri, query="SELECT 1 AS id")) as side,
        pytest.raises(ConnectError, match="statement_timeout_s is a number of seconds"),
    ):
        _ = side.columns


class Hung:
    """A source that hangs until it is cancelled or cut, and says which it was."""

    def __init__(self, *, heeds: bool | None) -> None:
        self.heeds = heeds
        self.freed = threading.Event()
        self.asked: list[bool] = []

    def items(self) -> Iterator[int]:
        self.freed.wait(PATIENCE_S * 4)
        yield 1

    def cancel(self, cut: bool) -> None:
        self.asked.append(cut)
        if cut is self.heeds:
            self.freed.set()


@pytest.mark.parametrize(
    ("heeds", "asked"),
    [(False, [False]), (True, [False, True]), (None, [False, True])],
    ids=["it heeds the request", "it has to be cut", "it hangs on"],
)
def test_a_reader_that_hangs_is_cancelled_then_cut_then_left(heeds, asked):
    """Each step only where the one before did not help; closing returns in any case."""
    hung = Hung(heeds=heeds)
    stream = Prefetched(hung.items, "hung", hung.cancel)
    assert ended(stream.close)
    assert hung.asked == asked
    hung.freed.set()
