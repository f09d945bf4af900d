"""docs/patching.md does what it shows."""

import contextlib
import json
import re
import sqlite3
from pathlib import Path

from airflow_delta_provider.cli import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "patching.md"
BLOCK = re.compile(r"```(\w+) ?(\w*)\n(.*?)```", re.DOTALL)


def rows(name):
    with contextlib.closing(sqlite3.connect(name)) as connection:
        return connection.execute("SELECT * FROM orders ORDER BY id").fetchall()


def test_the_page_on_patches_does_what_it_shows(tmp_path, monkeypatch, capsys):
    """A newcomer copies it block by block: equal after the patch, as before after the rollback."""
    monkeypatch.chdir(tmp_path)
    ids, seen = {}, []
    for kind, name, text in BLOCK.findall(PAGE.read_text()):
        if kind == "yaml":
            Path("orders.yaml").write_text(text)
        elif kind == "sql":
            with contextlib.closing(sqlite3.connect(f"{name}.db")) as connection:
                connection.executescript(text)
        else:
            before = rows("shop.db")
            for line in text.splitlines():
                words = [ids.get(word, word) for word in line.removeprefix("$ airflow-delta ").split()]
                code = main([*words, "--json"])
                answer = json.loads(capsys.readouterr().out)
                ids |= {name.upper(): answer[name] for name in ("manifest", "patch") if name in answer}
                seen.append((words[0], code, rows("shop.db") == rows("legacy.db"), rows("shop.db") == before))
    assert seen == [
        ("run", 1, False, True),
        ("patch", 0, False, True),
        ("patch", 0, True, False),
        ("rollback", 0, False, True),
    ]
