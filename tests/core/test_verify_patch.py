"""Verification of checkpoints and ledgers: a rollback acts on them, so every line is checked."""

import hashlib
import io
import json
from pathlib import Path

import pytest

from airflow_delta_provider.core import body, documents, ids, jsonc
from airflow_delta_provider.core.errors import StoreMissingError
from airflow_delta_provider.core.verify_patch import verify_patch

EXAMPLE = Path(__file__).resolve().parents[1] / "vectors" / "example"


def sha(data):
    return hashlib.sha256(data).hexdigest()


class Patched:
    """The worked patch, to be changed and sealed again by somebody who can hash."""

    def __init__(self):
        self.blobs = {}
        data = (EXAMPLE / "manifest.json").read_bytes()
        self.manifest_id, self.manifest = self.put(data), json.loads(data)
        self.put((EXAMPLE / "body.jsonl").read_bytes())
        self.schema = documents.parse_schema((EXAMPLE / "schema.json").read_bytes())
        self.headers = {name: json.loads((EXAMPLE / f"{name}.json").read_text()) for name in ("checkpoint", "ledger")}
        self.lines = {name: self.load(f"{name}.body.jsonl") for name in ("checkpoint", "ledger")}

    @staticmethod
    def load(name):
        return [json.loads(line) for line in (EXAMPLE / name).read_bytes().splitlines()]

    def put(self, data):
        self.blobs[sha(data)] = data
        return sha(data)

    def read(self, digest_hex):
        if digest_hex not in self.blobs:
            raise StoreMissingError(f"{digest_hex} is not there.")
        return self.blobs[digest_hex]

    def open(self, digest_hex):
        return io.BytesIO(self.read(digest_hex))

    def seal(self, name):
        out = io.BytesIO()
        writer = body.LineWriter(out)
        writer.write([jsonc.dumps(line) for line in self.lines[name]])
        self.headers[name]["body"] = writer.close().block
        self.put(out.getvalue())
        return self.put(jsonc.dumps(self.headers[name]))

    def sealed(self):
        checkpoint = self.seal("checkpoint")
        self.headers["ledger"]["checkpoint"] = checkpoint
        return checkpoint, self.seal("ledger")

    def codes(self, **options):
        checkpoint, ledger = self.sealed()
        found = verify_patch(checkpoint, ledger, self.manifest_id, self.manifest, self.schema, self, **options)
        return [finding.code for finding in found]


def test_the_worked_patch_verifies():
    """Sealed again it has its golden digests."""
    case = Patched()
    assert case.sealed() == (
        sha((EXAMPLE / "checkpoint.json").read_bytes()),
        sha((EXAMPLE / "ledger.json").read_bytes()),
    )
    assert case.codes() == []
    assert verify_patch(case.sealed()[0], None, case.manifest_id, case.manifest, case.schema, case) == []


CHECKPOINT, LEDGER = "DELTA_CHECKPOINT_MISMATCH", "DELTA_LEDGER_MISMATCH"
LIES = {
    "checkpoint of another manifest": (
        lambda c: c.headers["checkpoint"].update(manifest="00" * 32),
        [CHECKPOINT, CHECKPOINT, LEDGER],
    ),
    "checkpoint of another schema": (
        lambda c: c.headers["checkpoint"]["schema"].update(version="orders@8"),
        [CHECKPOINT],
    ),
    "another patch id": (lambda c: c.headers["checkpoint"].update(patch_id="00" * 32), [CHECKPOINT, LEDGER]),
    "another rule": (lambda c: c.headers["checkpoint"]["rule"].update(name="flag_for_review"), [CHECKPOINT]),
    "line left out": (lambda c: c.lines["checkpoint"].pop(), [CHECKPOINT]),
    "line more": (lambda c: c.lines["checkpoint"].append(c.lines["checkpoint"][0]), [CHECKPOINT, LEDGER]),
    "line of another record": (lambda c: c.lines["checkpoint"][1].update(id="00" * 32), [CHECKPOINT]),
    "before too short": (lambda c: c.lines["checkpoint"][1]["before"].pop(), [CHECKPOINT]),
    "before not in clear": (
        lambda c: c.lines["checkpoint"][1]["before"].__setitem__(4, {"hmac": "00" * 32, "key": "k1"}),
        [CHECKPOINT],
    ),
    "line of another form": (lambda c: c.lines["checkpoint"][1].update(note=1), [CHECKPOINT, CHECKPOINT]),
    "inserted over a row": (lambda c: c.lines["ledger"][1].update(op="insert"), [LEDGER]),
    "deleted nothing": (lambda c: c.lines["ledger"][0].update(op="delete"), [LEDGER]),
    "outcomes of other lines": (
        lambda c: c.lines["ledger"][0].update(op="none", outcome="already"),
        [LEDGER],
    ),
    "entry left out": (lambda c: c.lines["ledger"].pop(), [LEDGER]),
    "entry of another record": (lambda c: c.lines["ledger"][0].update(sort_key="00"), [LEDGER, LEDGER]),
    "entry of another form": (lambda c: c.lines["ledger"][0].update(op="upsert"), [LEDGER, LEDGER, LEDGER]),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lie_in_a_patch_is_found_though_every_digest_was_made_right_again(name):
    """Whoever rolls back must know what stood there before."""
    change, codes = LIES[name]
    case = Patched()
    change(case)
    if name in ("entry left out",):
        case.headers["ledger"]["outcomes"]["applied"] = 3
        codes = [LEDGER]
    assert case.codes() == codes


def test_altered_bytes_are_found():
    """Headers by their digest, bodies by the block in the header."""
    case = Patched()
    checkpoint, ledger = case.sealed()
    case.blobs[ledger] += b" "
    arguments = (case.manifest_id, case.manifest, case.schema, case)
    assert [f.code for f in verify_patch(checkpoint, ledger, *arguments)] == [LEDGER]
    case = Patched()
    checkpoint, ledger = case.sealed()
    digest = case.headers["checkpoint"]["body"]["sha256"]
    case.blobs[digest] = case.blobs[digest].replace(b'"00ff"', b'"00fe"')
    arguments = (case.manifest_id, case.manifest, case.schema, case)
    assert [f.code for f in verify_patch(checkpoint, ledger, *arguments)] == [CHECKPOINT]
    del case.blobs[digest]
    assert "DELTA_STORE_MISSING" in [f.code for f in verify_patch(checkpoint, ledger, *arguments)]
    del case.blobs[checkpoint]
    assert [f.code for f in verify_patch(checkpoint, ledger, *arguments)] == ["DELTA_STORE_MISSING"]


def test_a_rollback_is_named_by_the_patch_that_it_takes_back():
    """Same form, rule rollback, an id of its own."""
    case = Patched()
    patch, ledger = case.headers["ledger"]["patch_id"], sha((EXAMPLE / "ledger.json").read_bytes())
    rollback = ids.rollback_id(patch, ledger)
    case.headers["checkpoint"].update(rule={"column": None, "name": "rollback"}, patch_id=rollback)
    case.headers["ledger"].update(patch_id=rollback)
    assert case.codes(rollback_of=(patch, ledger)) == []
    assert case.codes(rollback_of=(patch, "00" * 32)) == [CHECKPOINT]
