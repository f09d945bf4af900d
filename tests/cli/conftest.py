"""The command line as its tests call it, and stores that it reads."""

from __future__ import annotations

import json
import shutil

import pytest
from cli_store import HOSTILE, Answer, Folder, example, fill
from signers import example_signer

from airflow_delta_provider.cli import main
from airflow_delta_provider.core import log
from airflow_delta_provider.core.signing import envelope_signer
from airflow_delta_provider.core.signing.keys import pem_of_spki
from airflow_delta_provider.core.store.publish import publish


@pytest.fixture
def delta(capfdbinary):
    """Run one command in this process."""

    def run(*words):
        capfdbinary.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as left:
            code = left.code
        out, err = capfdbinary.readouterr()
        return Answer(code, out.decode(), err.decode())

    return run


@pytest.fixture
def signed(tmp_path):
    """A store with the worked example, signed by its own key; ``trust.pem`` and ``pair_id`` are beside it."""
    folder = Folder(tmp_path / "store")
    receipt = publish(folder.store, example(), sign=envelope_signer(example_signer()))
    folder.pair_id = receipt.pair_id
    folder.trust = tmp_path / "trust.pem"
    folder.trust.write_text(pem_of_spki(example_signer().spki))
    return folder


@pytest.fixture
def unsigned(tmp_path):
    """The same without a signature."""
    folder = Folder(tmp_path / "plain")
    folder.pair_id = publish(folder.store, example()).pair_id
    return folder


@pytest.fixture(scope="session")
def hostile_folder(tmp_path_factory):
    """A store whose records hold everything that breaks a page, a spreadsheet or a statement."""
    folder = tmp_path_factory.mktemp("hostile")
    fill(folder / "s.db", [(n, source, 1) for n, (source, _) in enumerate(HOSTILE)])
    fill(folder / "t.db", [(n, target, 1) for n, (_, target) in enumerate(HOSTILE)])
    spec = folder / "spec.yaml"
    spec.write_text(
        "name: hostile\n"
        f"source: {{uri: 'sqlite:///{folder}/s.db', table: t}}\n"
        f"target: {{uri: 'sqlite:///{folder}/t.db', table: t}}\n"
    )
    assert main(["run", str(spec), "--store", str(folder / "store"), "--workers", "1"]) == 1
    return folder


@pytest.fixture
def hostile(hostile_folder):
    """That store; its manifest is the only one. Tests leave it as it is."""
    found = Folder(hostile_folder / "store")
    found.spec = hostile_folder / "spec.yaml"
    pair_id = next(iter(log.list_pairs(found.store)))
    found.manifest = log.read_log(found.store, pair_id)[-1].ref
    return found


@pytest.fixture(scope="session")
def large_folder(tmp_path_factory):
    """A store with a body of three pages."""
    folder = tmp_path_factory.mktemp("large")
    fill(folder / "s.db", [(n, f"row {n}", n) for n in range(2500)])
    fill(folder / "t.db", [])
    spec = folder / "spec.yaml"
    spec.write_text(
        "name: large\n"
        f"source: {{uri: 'sqlite:///{folder}/s.db', table: t}}\n"
        f"target: {{uri: 'sqlite:///{folder}/t.db', table: t}}\n"
    )
    assert main(["run", str(spec), "--store", str(folder / "store"), "--workers", "1"]) == 1
    return folder


@pytest.fixture
def large(large_folder, tmp_path):
    """A copy of that store, to be damaged."""
    shutil.copytree(large_folder / "store", tmp_path / "large")
    found = Folder(tmp_path / "large")
    found.pair_id = next(iter(log.list_pairs(found.store)))
    found.manifest = log.read_log(found.store, found.pair_id)[-1].ref
    found.body = json.loads(found.blob(found.manifest).read_bytes())["body"]["sha256"]
    return found
