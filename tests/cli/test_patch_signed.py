"""The manifest that proves a patch is signed like the one that it was made from."""

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest
import servers

from airflow_delta_provider.cli import main

SPEC = """
name: orders
source: {uri: "sqlite:///old.db", table: orders}
target: {uri: "sqlite:///new.db", table: orders}
key: [id]
"""


@pytest.fixture
def repaired(tmp_path, monkeypatch, capsys):
    """Return a function that compares two tables under a key, patches one, and tells how the pair verifies."""
    import subprocess

    openssl = servers.require_program("openssl")
    monkeypatch.chdir(tmp_path)
    for name, amount in (("old", 1), ("new", 2)):
        with contextlib.closing(sqlite3.connect(f"{name}.db")) as connection:
            connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, amount INTEGER)")
            connection.execute("INSERT INTO orders VALUES (1, ?), (2, 2)", (amount,))
            connection.commit()
    Path("orders.yaml").write_text(SPEC)
    subprocess.run([openssl, "genpkey", "-algorithm", "ed25519", "-out", "key.pem"], check=True, timeout=60)
    subprocess.run([openssl, "pkey", "-in", "key.pem", "-pubout", "-out", "public.pem"], check=True, timeout=60)

    def run(*words: str) -> tuple[int, dict]:
        code = main([*words, "--store", "store", "--json"])
        return code, json.loads(capsys.readouterr().out)

    return run


@pytest.mark.parametrize(("more", "code"), [(["--sign", "key.pem"], 0), ([], 4)], ids=["signed", "unsigned"])
def test_a_pair_verifies_after_a_patch_where_its_proof_is_signed(repaired, more, code):
    """Who trusts signed manifests alone could not trust the one that says that all is mended."""
    _, found = repaired("run", "orders.yaml", "--sign", "key.pem")
    done, patched = repaired("patch", found["manifest"], "--spec", "orders.yaml", "--trust", "public.pem", *more)
    assert done == 0
    assert repaired("verify", "orders", "--trust", "public.pem")[0] == code
    assert repaired("verify", patched["converged"], "--trust", "public.pem")[0] == code


def test_the_proof_of_a_rollback_is_signed_too(repaired):
    """It is the old manifest, in bytes and so in its signature, unless nobody had signed that."""
    _, found = repaired("run", "orders.yaml")
    _, patched = repaired("patch", found["manifest"], "--spec", "orders.yaml", "--sign", "key.pem")
    done, back = repaired("rollback", patched["patch"], "--spec", "orders.yaml", "--sign", "key.pem")
    assert (done, back["converged"]) == (0, found["manifest"])
    assert repaired("verify", back["converged"], "--trust", "public.pem")[0] == 0
