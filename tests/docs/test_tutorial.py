"""The tutorial, typed block by block; only the person who approves is taken as given."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
import servers

pytestmark = pytest.mark.nightly
PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"(?:^<!-- (?P<note>[^\n]*) -->\n)?^```(?P<language>[^\n]*)\n(?P<text>.*?)^```$", re.M | re.S)
RUN = "airflow db migrate\nairflow dags test --mark-success-pattern 'orders\\.approve' repair_orders > run.log 2>&1\n"
"""Instead of ``airflow standalone`` and the page in its UI."""


def test_the_tutorial_ends_in_two_equal_tables(postgresql_database, tmp_path):
    """A newcomer who gets stuck in the first quarter of an hour does not come back."""
    servers.require_program("openssl")
    script = f"set -eu\nexport LEGACY='{postgresql_database}' NEW='{postgresql_database}'\n"
    for match in BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        if match["language"].startswith("sql"):
            with psycopg.connect(postgresql_database) as connection:
                connection.execute(match["text"].encode())
        elif match["language"] == "sh":
            script += match["text"] if not match["note"] else RUN if "standalone" in match["text"] else ""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=kept | {"PATH": path}, capture_output=True, text=True, timeout=420
    )
    assert done.returncode == 0, done.stderr + (tmp_path / "run.log").read_text(errors="replace")[-4000:]
    assert "verdict   equal" in done.stdout
    assert re.search(r"^verdict   verified$", done.stdout, re.M)
    log = [line.split()[1] for line in done.stdout.splitlines() if re.match(r"^ +\d+ ", line)]
    assert [log.count(kind) for kind in ("manifest", "checkpoint", "ledger", "envelope")] == [2, 1, 1, 2]
    with psycopg.connect(postgresql_database) as connection:
        query = "SELECT count(*) FROM (TABLE orders_old EXCEPT TABLE orders_new UNION ALL TABLE orders_new EXCEPT TABLE orders_old)"
        assert connection.execute((query + " AS found").encode()).fetchone() == (0,)
