"""docs/sweep.md does what it shows."""

import contextlib
import io
import re
import sqlite3
from pathlib import Path

from airflow_delta_provider.cli import main
from airflow_delta_provider.core import log
from airflow_delta_provider.core.predecessor import newest_generation
from airflow_delta_provider.core.store import open_store

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sweep.md"
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


def test_the_page_on_sweeps_does_what_it_shows(tmp_path, monkeypatch, capsys):
    """A newcomer copies it block by block."""
    monkeypatch.chdir(tmp_path)
    outputs = []
    for kind, text in BLOCK.findall(PAGE.read_text()):
        if kind == "yaml":
            Path("stock.yaml").write_text(text)
        elif kind == "sql":
            with contextlib.closing(sqlite3.connect("stock.db")) as connection:
                connection.executescript(text)
        elif kind == "console":
            command, shown = text.split("\n", 1)
            main(command.removeprefix("$ airflow-delta ").split())
            outputs.append(re.sub(r"after [0-9a-f]{12}", "after <the generation before>", capsys.readouterr().out))
            assert outputs[-1].startswith(shown)
        elif kind == "python":
            store = open_store("store")
            (pair_id,) = log.list_pairs(store)
            found = io.StringIO()
            with contextlib.redirect_stdout(found):
                exec(text, {"generation": newest_generation(store, pair_id)})  # noqa: S102 - the page's own code
            assert found.getvalue() == "value_diverged ['A1']\nadded ['D4']\n"
    assert len(outputs) == 2
