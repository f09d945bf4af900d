"""The command line as a whole: one object on stdout, errors with code and remedy, exit codes, and no Airflow."""

import json
import os
import re
import subprocess
import sys

import pytest
from cli_store import MANIFEST
from signers import example_signer

from airflow_delta_provider.cli.output import exit_code
from airflow_delta_provider.core.errors import (
    BodyDigestError,
    InputPathError,
    SpecFieldError,
    StoreReadError,
    StoreRetiredError,
    StoreWriteError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StoreReadError, 3),
        (StoreWriteError, 3),
        (StoreRetiredError, 3),
        (InputPathError, 3),
        (SpecFieldError, 2),
        (BodyDigestError, 2),
    ],
)
def test_what_could_not_be_read_or_written_is_exit_3_and_a_refusal_2(error, code):
    """A caller retries the one and not the other."""
    assert exit_code(error("x")) == code


def test_a_refusal_in_json_has_code_message_place_and_remedy(delta, tmp_path):
    """Programs read it from stdout, and stderr stays empty."""
    spec = tmp_path / "spec.yaml"
    spec.write_text("name: x\nsource: {path: a.csv}\ntarget: {path: b.csv}\nnope: 1\n")
    answer = delta("run", spec, "--store", tmp_path / "store", "--json")
    assert (answer.code, answer.err) == (2, "")
    assert answer.json == {
        "error": {
            "code": "DELTA_SPEC_FIELD",
            "message": "unknown field nope.",
            "where": "nope",
            "remedy": "See docs/specification.md for the fields.",
        }
    }
    answer = delta("run", spec, "--store", tmp_path / "store")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("[DELTA_SPEC_FIELD] unknown field nope.")
    assert not (tmp_path / "store").exists()


def test_run_prints_one_object(delta, hostile, tmp_path):
    """Digest, categories, population and summary."""
    answer = delta("run", hostile.spec, "--store", tmp_path / "store", "--json")
    assert answer.code == 1
    assert answer.json["manifest"] == hostile.manifest
    assert answer.json["categories"] == {"added": 0, "dropped": 0, "value_diverged": 13}
    assert answer.json["population"]["unchanged"] == 0
    assert answer.json["summary"]["columns"] == [["no<te", 13, 0], ["amount", 0, 0]]


def test_show_filters_by_category_and_column(delta, signed):
    """Only what is asked for, in body order."""
    words = ("show", MANIFEST, "--store", signed, "--json")
    assert len(delta(*words).json["records"]) == 4
    assert len(delta(*words, "--category", "added").json["records"]) == 2
    assert len(delta(*words, "--column", "amount").json["records"]) == 1
    assert len(delta(*words, "--records", "1").json["records"]) == 1
    assert "value_diverged 42, DE" in delta("show", MANIFEST, "--store", signed).out


def test_the_log_says_verdict_counts_signer_and_run(delta, signed):
    """The history of a pair on one screen."""
    entries = delta("log", "orders", "--store", signed, "--json").json["entries"]
    assert [entry["kind"] for entry in entries] == ["envelope", "sidecar", "manifest"]
    assert entries[2]["verdict"] == "different"
    assert entries[2]["categories"] == {"added": 2, "dropped": 1, "value_diverged": 1}
    assert entries[2]["signers"] == [example_signer().keyid]
    assert entries[2]["run"] == {"host": "somewhere"}
    line = delta("log", "orders", "--store", signed).out.splitlines()[2]
    assert f"different added=2 dropped=1 value_diverged=1 signer={example_signer().keyid[:16]} host=somewhere" in line


def test_a_digest_that_is_no_manifest_is_refused(delta, signed):
    """Told apart: no digest, nothing there, something else there."""
    assert "[DELTA_INPUT_DIGEST]" in delta("show", "abc", "--store", signed).err
    assert delta("show", "0" * 64, "--store", signed).code == 3
    schema = "eee1ac85b68edad85a043fc8dc81bfebea49c2f95363b1a2d6fc4d5616b5acda"
    assert "[DELTA_INPUT_MANIFEST]" in delta("show", schema, "--store", signed).err


def test_a_store_that_may_not_be_read_is_exit_3(delta, signed, monkeypatch):
    """No permission is no missing digest, and no refusal either."""

    def denied(*_words, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("airflow_delta_provider.core.store.local.os.stat", denied)
    answer = delta("verify", MANIFEST, "--store", signed, "--json")
    assert (answer.code, answer.json["error"]["code"]) == (3, "DELTA_STORE_READ")


BLOCKED = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("airflow", "fastapi", "pandas"):
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
from airflow_delta_provider.cli import main
digest, store, folder = sys.argv[1:]
for words in (
    ["verify", digest, "--store", store],
    ["verify", "--audit", store],
    ["export", digest, "--store", store, "--to", "html", "-o", folder + "/a.html"],
    ["export", digest, "--store", store, "--to", "parquet", "-o", folder + "/a.parquet"],
    ["prove", digest, "--category", "added", "--store", store, "-o", folder + "/a.proof"],
    ["check-proof", folder + "/a.proof"],
    ["log", "orders", "--store", store],
):
    code = main(words)
    assert code == 0, (words, code)
"""


def test_no_command_needs_airflow(signed, tmp_path):
    """The auditor's machine has none."""
    words = [sys.executable, "-c", BLOCKED, MANIFEST, str(signed), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": "7"}, check=False)
    assert (done.returncode, done.stderr) == (0, f"{tmp_path}/a.proof: 5127 bytes\n")


def test_help_names_every_command(delta):
    """A newcomer finds them."""
    out = delta("--help").out
    for command in ("init", "check", "run", "show", "export", "verify", "prove", "check-proof", "log", "conformance"):
        assert re.search(rf"\n    {command}\s", out)


def test_json_of_every_verdict_is_one_line(delta, signed):
    """One object, one line: it can be piped."""
    for words in (("verify", MANIFEST), ("verify", "orders"), ("log", "orders")):
        out = delta(*words, "--store", signed, "--json").out
        assert out.count("\n") == 1
        json.loads(out)
