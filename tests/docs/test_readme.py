"""The README's blocks, run as a reader would: in order, in one empty folder."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import servers
from docs_modules import load

from airflow_delta_provider.core import jsonc, log
from airflow_delta_provider.core.spec import parse_spec, parse_yaml
from airflow_delta_provider.core.store import open_store
from airflow_delta_provider.demo.host import make_host

blocks = load("blocks")
README = blocks.blocks_of("README.md")
MANIFEST = "8b175dfd0a26c71e9df2493ff39d50e1a50f7bd3b87bd32f73bdce806524ee65"


def test_every_block_of_shell_is_followed_by_what_it_prints(tmp_path):
    """A quickstart that does not do what it shows costs its reader more than none."""
    for program in ("bash", "openssl", "jq"):
        servers.require_program(program)
    (tmp_path / "docs").symlink_to(blocks.ROOT / "docs")
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    told = {"sh": 0, "text": 0}
    printed = ""
    for block in README:
        if block.language == "sh" and not block.note:
            done = subprocess.run(
                ["bash", "-u", "-c", block.text],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=300,
            )
            printed = done.stdout
            assert done.stderr == ""
            told["sh"] += 1
        elif block.language == "text" and told["sh"]:
            assert printed == block.text
            told["text"] += 1
    assert told == {"sh": 3, "text": 3}
    assert "</html>" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_the_commands_that_are_not_run_here_are_targets_of_the_makefile():
    """The two commands are what a stranger types first."""
    (block,) = [block for block in README if block.note]
    targets = re.findall(r"^([a-z-]+):", (blocks.ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert block.text == "make demo\nmake test\n"
    assert {"demo", "demo-ui", "test", "venv"} <= set(targets)


def test_the_manifest_that_is_explained_is_the_one_that_is_published():
    """An explained document that nobody can publish teaches the wrong format."""
    (block,) = [block for block in blocks.blocks_of("docs/manifest.md") if block.language == "jsonc"]
    lines = [re.sub(r"\s+// .*$", "", line) for line in block.text.splitlines()]
    assert hashlib.sha256(jsonc.dumps(json.loads("\n".join(lines)))).hexdigest() == MANIFEST


@pytest.mark.slow
def test_the_dag_runs_and_publishes(tmp_path):
    """The first Dag that a reader copies must run under a fresh Airflow, in under 20 lines."""
    (block,) = [block for block in README if block.language == "python"]
    assert len(block.text.splitlines()) < 20
    dag = tmp_path / "dags" / "orders.py"
    dag.parent.mkdir()
    dag.write_text(block.text, encoding="utf-8")
    for name, last in (("legacy", "Edsger"), ("shop", "Edsger W.")):
        with sqlite3.connect(tmp_path / f"{name}.db") as connection:
            connection.execute("CREATE TABLE orders (order_id INTEGER PRIMARY KEY, customer TEXT)")
            rows = [(1, "Ada"), (2, "Grace"), (3, "Barbara"), (4, last)]
            connection.executemany("INSERT INTO orders VALUES (?, ?)", rows)
    key = tmp_path / "key.pem"
    openssl = servers.require_program("openssl")
    subprocess.run([openssl, "genpkey", "-algorithm", "ed25519", "-out", str(key)], check=True, timeout=60)
    connections = {
        "legacy": {"conn_type": "sqlite", "host": str(tmp_path / "legacy.db")},
        "shop": {"conn_type": "sqlite", "host": str(tmp_path / "shop.db")},
        "delta_store_default": {"conn_type": "delta_store", "host": str(tmp_path / "store")},
        "delta_signer_default": {"conn_type": "delta_signer", "password": key.read_text(encoding="ascii")},
    }
    airflow = make_host(tmp_path / "airflow", connections, dag.parent)
    airflow.run("db", "migrate")
    airflow.run("dags", "test", "--dagfile-path", str(dag), "orders_after_migration")
    store = open_store(str(tmp_path / "store"))
    entries = log.read_log(store, log.pair_id_of("orders", "legacy:orders", "shop:orders"))
    assert [entry.kind for entry in entries] == ["envelope", "sidecar", "manifest"]


def test_the_sides_that_are_named_in_passing_are_valid():
    """An example in a sentence is copied like any other."""
    text = (blocks.ROOT / "README.md").read_text(encoding="utf-8")
    sides = re.findall(r"`(\{uri: [^`]*\})`", text)
    assert len(sides) == 2
    for side in sides:
        form = parse_yaml(f"name: n\nsource: {side}\ntarget: {side}\n".encode(), "README")
        assert parse_spec(form).target.table


def test_every_file_that_the_readme_links_to_is_there():
    """A newcomer finds a capability from the README in one minute, or not at all."""
    text = (blocks.ROOT / "README.md").read_text(encoding="utf-8")
    links = {link for link in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in link}
    assert sorted(link for link in links if not (blocks.ROOT / link).exists()) == []
