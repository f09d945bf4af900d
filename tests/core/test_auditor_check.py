"""The auditor's check without any of our code: docs/auditor-check.sh over the example, and over what was altered."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import servers
from signers import fresh_signer

from airflow_delta_provider.core.signing import dsse, keys, sign_manifest, statement

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "tests" / "vectors" / "example"
FILES = ("manifest.json", "manifest.dsse.json", "schema.json", "contract.json", "structure.json", "summary.json")
MANIFEST = "8ee20d554454d865b1186ab0bfabfee6f7c849136273917ec658aa88e0f3becc"


@pytest.fixture
def folder(tmp_path):
    for program in ("jq", "openssl", "sha256sum"):
        servers.require_program(program)
    folder = tmp_path / "evidence"
    folder.mkdir()
    for name in (*FILES, "body.jsonl"):
        shutil.copyfile(EXAMPLE / name, folder / name)
    return folder


def check(folder: Path, key: Path = EXAMPLE / "ed25519.pub.pem", *more: str) -> tuple[int, list[str]]:
    """Return the exit status and the lines that say WRONG."""
    command = ["sh", str(ROOT / "docs" / "auditor-check.sh"), str(folder), str(key), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, [line[6:] for line in done.stdout.splitlines() if line.startswith("WRONG ")]


def test_the_example_holds(folder):
    """Every check passes, by programs that we did not write."""
    assert check(folder, EXAMPLE / "ed25519.pub.pem", MANIFEST) == (0, [])


def signed_anew(folder: Path, tmp_path: Path, alg: str) -> Path:
    signer = fresh_signer(alg)
    (folder / "manifest.dsse.json").write_bytes(sign_manifest((folder / "manifest.json").read_bytes(), signer))
    key = tmp_path / "key.pub.pem"
    key.write_text(keys.pem_of_spki(signer.spki))
    return key


@pytest.mark.parametrize("alg", ["ed25519", "ecdsa-p256-sha256"])
def test_our_envelopes_hold_for_openssl(folder, tmp_path, alg):
    """Both algorithms; and no other key verifies."""
    key = signed_anew(folder, tmp_path, alg)
    assert check(folder, key) == (0, [])
    assert check(folder) == (1, ["signature by ed25519.pub.pem"])


def alter(folder: Path, name: str, old: bytes, new: bytes) -> None:
    data = (folder / name).read_bytes()
    assert old in data
    (folder / name).write_bytes(data.replace(old, new))


def test_altered_documents_are_found(folder):
    """One byte is enough, and a line says which file."""
    alter(folder, "schema.json", b"orders@7", b"orders@8")
    alter(folder, "contract.json", b"values", b"counts")
    alter(folder, "structure.json", b"14,4", b"14,5")
    alter(folder, "summary.json", b",3]", b",4]")
    alter(folder, "body.jsonl", b"12.51", b"12.52")
    assert check(folder) == (1, ["schema.json", "contract.json", "structure.json", "summary.json", "body.jsonl"])


def test_a_body_of_other_lines_is_found(folder):
    """Line ends of another system, and a record that moved into another category."""
    alter(folder, "body.jsonl", b"\n", b"\r\n")
    alter(folder, "body.jsonl", b'"dropped"', b'"added"')
    assert check(folder) == (
        1,
        ["body.jsonl", "number of records and bytes", "records of category added", "records of category dropped"],
    )


def test_swapped_records_are_found(folder):
    """Order and digest."""
    lines = (folder / "body.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "body.jsonl").write_bytes(b"".join([lines[1], lines[0], *lines[2:]]))
    assert check(folder) == (1, ["body.jsonl", "order of the keys"])


def test_a_changed_manifest_is_found_though_its_sums_hold(folder):
    """What is signed is another one."""
    data = (folder / "manifest.json").read_bytes()
    (folder / "manifest.json").write_bytes(data.replace(b'"findings":3', b'"findings":2'))
    status, wrong = check(folder, EXAMPLE / "ed25519.pub.pem", MANIFEST)
    changed = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
    assert (status, wrong) == (1, [f"statement about manifest {changed}", "manifest is the one that was asked for"])


def test_signed_sums_that_do_not_hold_are_found(folder, tmp_path):
    """A signature does not make a sum true."""
    data = (folder / "manifest.json").read_bytes()
    (folder / "manifest.json").write_bytes(data.replace(b'"rows":1000', b'"rows":1001'))
    assert check(folder, signed_anew(folder, tmp_path, "ed25519")) == (1, ["sums of the rows"])


def test_a_changed_signature_or_payload_is_found(folder):
    """The envelope is checked as bytes."""
    document = json.loads((folder / "manifest.dsse.json").read_bytes())
    sig = document["signatures"][0]["sig"]
    changed = {**document, "signatures": [{"keyid": "", "sig": ("A" if sig[0] != "A" else "B") + sig[1:]}]}
    (folder / "manifest.dsse.json").write_text(json.dumps(changed))
    assert check(folder) == (1, ["signature by ed25519.pub.pem"])
    (folder / "manifest.dsse.json").write_text(json.dumps({**document, "payload": "e30="}))
    assert check(folder) == (1, ["signature by ed25519.pub.pem", f"statement about manifest {MANIFEST}"])
    (folder / "manifest.dsse.json").write_text(json.dumps({**document, "signatures": []}))
    assert check(folder) == (1, ["signature by ed25519.pub.pem"])


def test_a_valid_signature_over_another_statement_is_found(folder, tmp_path):
    """The predicate and the subject must both be this manifest."""
    signer = fresh_signer("ed25519")
    key = tmp_path / "key.pub.pem"
    key.write_text(keys.pem_of_spki(signer.spki))
    payload = statement.statement_bytes((folder / "manifest.json").read_bytes())
    for kind, signed in (
        (statement.PAYLOAD_TYPE, payload.replace(b'"rows":1000', b'"rows":1001')),
        (statement.PAYLOAD_TYPE, payload.replace(b'"name":"manifest.json"', b'"name":"x"')),
        ("application/json", payload),
    ):
        (folder / "manifest.dsse.json").write_bytes(dsse.sign_envelope(kind, signed, [signer]).data)
        assert check(folder, key) == (1, [f"statement about manifest {MANIFEST}"])


def test_what_cannot_be_checked_has_no_verdict(folder, tmp_path):
    """A missing file is neither right nor wrong."""
    assert check(folder, tmp_path / "nokey.pem") == (2, [])
    (folder / "summary.json").unlink()
    assert check(folder) == (2, [])
    assert check(tmp_path / "nowhere") == (2, [])
