"""Decisions, checkpoints and ledgers against the worked example, byte for byte."""

import hashlib
import io
import json
from pathlib import Path

import pytest

from airflow_delta_provider.core import checkpoint, documents, ids, jsonc, ledger, log
from airflow_delta_provider.core.errors import (
    CheckpointMismatchError,
    CheckpointRequiredError,
    HmacKeyError,
    LedgerMismatchError,
    PatchRuleError,
)
from airflow_delta_provider.core.patch import Decision, PatchRule, counted, decide, decide_rollback, settled
from airflow_delta_provider.core.patch_rows import PatchColumn, RowForms
from airflow_delta_provider.core.patch_seal import MAGIC, seal, sealed_bytes, unseal
from airflow_delta_provider.core.recorded import HmacKey
from airflow_delta_provider.core.store.memory import MemoryStore
from airflow_delta_provider.core.types import LogicalType, from_schema

EXAMPLE = Path(__file__).resolve().parents[1] / "vectors" / "example"
MANIFEST = json.loads((EXAMPLE / "manifest.json").read_bytes())
MANIFEST_ID = "8ee20d554454d865b1186ab0bfabfee6f7c849136273917ec658aa88e0f3becc"
RECORDS = [json.loads(line) for line in (EXAMPLE / "body.jsonl").read_bytes().splitlines()]
POINTS = [json.loads(line) for line in (EXAMPLE / "checkpoint.body.jsonl").read_bytes().splitlines()]
KEY = HmacKey("k1", hashlib.sha256(b"delta-manifest-v1 test key hmac").digest())
STAMP = LogicalType("timestamp_tz")


def forms(key=KEY):
    schema = json.loads((EXAMPLE / "schema.json").read_bytes())
    columns = [PatchColumn(n, n, from_schema(t), from_schema(t), keyed=n == "blob") for n, t in schema["columns"]]
    keys = [PatchColumn(n, n, from_schema(t), from_schema(t)) for n, t in schema["key"]]
    return RowForms("target", keys, columns, 65536, key)


def built(rule, stamps=None):
    """Return (checkpoint body, checkpoint, ledger body, ledger) of the worked example under a rule."""
    patch, found = rule.patch_id(MANIFEST_ID), forms()
    lines = [checkpoint.checkpoint_line(point["before"], record) for record, point in zip(RECORDS, POINTS, strict=True)]
    body, facts = checkpoint.body_bytes(lines)
    header = documents.build_checkpoint(
        facts.block, MANIFEST_ID, patch, (rule.name, rule.column), MANIFEST["schema"], rule.side
    )
    entries = []
    for record, point in zip(RECORDS, POINTS, strict=True):
        decision = decide(rule, record, found.recorded(point["before"]), found.places, stamps)
        entries.append((record, settled(decision, "wanted")))
    lines = [ledger.ledger_line(record["id"], *end, record["sort_key"]) for record, end in entries]
    ledger_body, facts = checkpoint.body_bytes(lines)
    outcomes = counted([outcome for _, (_, outcome, _) in entries])
    ended = documents.build_ledger(facts.block, ids.sha256_hex(header), MANIFEST_ID, outcomes, patch)
    return body, header, ledger_body, ended


def test_the_worked_patch_comes_out_byte_for_byte():
    """What an auditor recomputes from the specification is what this package writes."""
    body, header, ledger_body, ended = built(PatchRule())
    assert body == (EXAMPLE / "checkpoint.body.jsonl").read_bytes()
    assert header == (EXAMPLE / "checkpoint.json").read_bytes()
    assert ledger_body == (EXAMPLE / "ledger.body.jsonl").read_bytes()
    assert ended == (EXAMPLE / "ledger.json").read_bytes()


@pytest.mark.parametrize(
    ("rule", "stamps", "patch", "point", "end"),
    [
        (
            PatchRule(),
            None,
            "ba51934c62e65eab9b93d10ed4fd2458cf4224e14f244b4b70431dd8ea6ccb1c",
            "e1a5d68324fab2231ee1e146c966547ad99f021435dbffbe63eb17b9373b29c9",
            "53fe7fbf0ae954aff2aab49085642c3331ad1e46fb4d7a8b3f1a2b0cc5d191b8",
        ),
        (
            PatchRule("last_writer_wins", "seen_at"),
            ("2024-01-02T03:04:05.123456789Z", "2024-01-02T03:04:05.1239Z", STAMP),
            "094c6896b395c6422a13c9500d91459d582543e90a166742dfe092df2157f5af",
            "2851cc6cb8b472653aeb62fdfd9c0c4988420b7f69c0518ba89760a747243932",
            "9f95bd5b09d64cf963c2bc2c91e510fec99a403f5be75dd67e932a55c7167a09",
        ),
        (
            PatchRule("flag_for_review"),
            None,
            "ba4b4128667a89afb2c4464589afa530d5c310fd49286698655de6793195f0f1",
            "c77087ceea568fdadb63a4977fec27a1fe9c754a1473e08514226ededfde97e2",
            "4d65cac469a4d7c9cd74d74c0b98886b79bba5940fa5a0347a445a005eba2790",
        ),
    ],
    ids=["source_authoritative", "last_writer_wins", "flag_for_review"],
)
def test_each_rule_gives_the_digests_of_the_specification(rule, stamps, patch, point, end):
    """Under last_writer_wins the stamp is the one that was read: a rule of precision called the two equal."""
    _, header, _, ended = built(rule, stamps)
    assert rule.patch_id(MANIFEST_ID) == patch
    assert (ids.sha256_hex(header), ids.sha256_hex(ended)) == (point, end)


DIVERGED = {"category": "value_diverged", "columns": ["b"], "source_value": ["s"], "target_value": ["t"]}
ADDED = {"category": "added", "source_value": None, "target_value": ["x", "y"]}
DROPPED = {"category": "dropped", "source_value": ["x", "y"], "target_value": None}
PLACES = {"a": 0, "b": 1}


@pytest.mark.parametrize(
    ("record", "before", "decision"),
    [
        (DIVERGED, ["a", "t"], Decision("update", wanted=["a", "s"])),
        (DIVERGED, ["changed", "t"], Decision("update", wanted=["changed", "s"])),
        (DIVERGED, ["a", "s"], Decision("none", "already", None, ["a", "s"])),
        (DIVERGED, ["a", "human"], Decision("none", "conflict", "DELTA_PATCH_CONFLICT")),
        (DIVERGED, None, Decision("none", "conflict", "DELTA_PATCH_CONFLICT")),
        (ADDED, ["x", "y"], Decision("delete", wanted=None)),
        (ADDED, None, Decision("none", "already", None, None)),
        (ADDED, ["x", "z"], Decision("none", "conflict", "DELTA_PATCH_CONFLICT")),
        (DROPPED, None, Decision("insert", wanted=["x", "y"])),
        (DROPPED, ["x", "y"], Decision("none", "already", None, ["x", "y"])),
        (DROPPED, ["x", "z"], Decision("none", "conflict", "DELTA_PATCH_CONFLICT")),
    ],
)
def test_a_record_is_decided_by_the_row_before(record, before, decision):
    """Nothing is overwritten that is not what the comparison saw; what is right already is left alone."""
    assert decide(PatchRule(), record, before, PLACES) == decision


@pytest.mark.parametrize(
    ("mine", "other", "reason"),
    [
        ("1", "2", None),
        ("10", "9", "DELTA_PATCH_NEWER"),
        ("2", "2", "DELTA_PATCH_TIE"),
        (None, "2", "DELTA_PATCH_TIE"),
        ("1", None, "DELTA_PATCH_TIE"),
    ],
)
def test_the_greater_stamp_wins_in_key_order(mine, other, reason):
    """Numbers count as numbers; what is equal or NULL is a person's to decide."""
    rule = PatchRule("last_writer_wins", "a")
    assert decide(rule, DIVERGED, ["a", "t"], PLACES, (mine, other, LogicalType("int"))).reason == reason


def test_one_sided_rows_and_stamps_without_order_go_to_a_person():
    """No column can tell who wrote last where one side has no row, or an infinite time."""
    rule = PatchRule("last_writer_wins", "a")
    for record, before in ((ADDED, ["x", "y"]), (DROPPED, None)):
        assert decide(rule, record, before, PLACES).reason == "DELTA_PATCH_ONE_SIDED"
    assert decide(rule, DIVERGED, ["a", "t"], PLACES, ("infinity", "infinity", STAMP)).reason == "DELTA_PATCH_TIE"
    assert decide(rule, DIVERGED, None, PLACES).outcome == "conflict"


@pytest.mark.parametrize(
    ("rule", "column", "side"),
    [
        ("source_authoritative", None, "source"),
        ("last_writer_wins", None, "target"),
        ("flag_for_review", "a", "target"),
        ("newest", None, "target"),
        ("source_authoritative", None, "both"),
    ],
)
def test_other_combinations_of_rule_and_side_are_refused(rule, column, side):
    """A patch id stands for one of the defined patches and for nothing else."""
    with pytest.raises(PatchRuleError):
        PatchRule(rule, column, side)


def test_the_column_that_decides_must_be_compared_and_have_an_order():
    """A json column has no key order."""
    rule = PatchRule("last_writer_wins", "a")
    rule.check_column({"a": LogicalType("int")})
    for columns in ({}, {"a": LogicalType("json")}):
        with pytest.raises(PatchRuleError):
            rule.check_column(columns)


def test_a_rollback_is_decided_by_what_the_patch_left():
    """Only an applied record is taken back, and only where its row is untouched since."""
    applied, skipped = {"outcome": "applied"}, {"outcome": "conflict"}
    assert decide_rollback(applied, ["t"], ["s"], ["s"]) == Decision("update", wanted=["t"])
    assert decide_rollback(applied, None, ["s"], ["s"]) == Decision("delete", wanted=None)
    assert decide_rollback(applied, ["t"], None, None) == Decision("insert", wanted=["t"])
    assert decide_rollback(applied, ["t"], ["human"], ["s"]).outcome == "conflict"
    assert decide_rollback(applied, None, None, ["s"]).outcome == "conflict"
    assert decide_rollback(skipped, ["t"], ["t"], ["s"]).outcome == "already"


@pytest.mark.parametrize(
    ("decision", "state", "line"),
    [
        (Decision("update", wanted=["s"]), "wanted", ("update", "applied", None)),
        (Decision("update", wanted=["s"]), "neither", ("update", "conflict", "DELTA_PATCH_CONFLICT")),
        (Decision("insert", wanted=["s"]), "lossy", ("none", "skipped", "DELTA_VALUE_LOSSY")),
        (Decision("none", "already"), "neither", ("none", "already", None)),
    ],
)
def test_a_ledger_line_follows_from_decision_and_final_state(decision, state, line):
    """How often a patch was tried does not show."""
    assert settled(decision, state) == line


def test_recorded_forms_need_the_key_of_keyed_digests():
    """Without it a row could not be compared with what was recorded."""
    assert forms().recorded(POINTS[1]["before"]) == RECORDS[1]["target_value"]
    with pytest.raises(HmacKeyError):
        forms(None)


def test_sealed_bytes_open_with_the_key_and_no_other_way():
    """Equal bodies give equal bytes, an altered, cut or lengthened one opens no more."""
    plain = bytes(range(256)) * 9000
    digest = hashlib.sha256(plain).hexdigest()
    sealed = sealed_bytes(b"key", digest, plain)
    assert sealed == sealed_bytes(b"key", digest, plain) and plain[:64] not in sealed

    def opened(data, key=b"key"):
        out = io.BytesIO()
        unseal(key, digest, io.BytesIO(data), out)
        return out.getvalue()

    assert opened(sealed) == plain
    for broken in (
        sealed[:-1],
        sealed[: len(MAGIC) + 2**20 + 16],
        sealed + b"x",
        b"x" + sealed[1:],
        sealed[:-3] + b"abc",
    ):
        with pytest.raises(CheckpointMismatchError):
            opened(broken)
    with pytest.raises(CheckpointMismatchError):
        opened(sealed, b"other")
    out = io.BytesIO()
    seal(b"key", hashlib.sha256(b"").hexdigest(), io.BytesIO(b""), out)
    assert len(out.getvalue()) == len(MAGIC) + 16


def test_a_body_is_stored_once_and_read_back_checked(tmp_path):
    """Sealed or not: what comes back is what went in, and the slot tells where the sealed bytes lie."""
    store = MemoryStore()
    pair = log.register_pair(store, "n", "s", "t")
    lines = checkpoint.LineFile(tmp_path / "body")
    lines.write([b'{"a":1}', b'{"a":2}'])
    digest = lines.close().sha256
    for key in (b"key", None):
        other = pair if key is None else log.register_pair(store, "m", "s", "t")
        checkpoint.put_body(store, other, "checkpoint", tmp_path / "body", digest, key)
        checkpoint.fetch_body(store, other, "checkpoint", digest, key, tmp_path / "back")
        assert (tmp_path / "back").read_bytes() == b'{"a":1}\n{"a":2}\n'
    with pytest.raises(CheckpointMismatchError, match="no key"):
        checkpoint.fetch_body(store, log.pair_id_of("m", "s", "t"), "checkpoint", digest, None, tmp_path / "back")


def test_a_checkpoint_must_be_there_and_belong_to_the_patch():
    """A retry acts on the rows before the first write, and on no others."""
    store = MemoryStore()
    pair = log.register_pair(store, "n", "s", "t")
    patch = PatchRule().patch_id(MANIFEST_ID)
    with pytest.raises(CheckpointRequiredError):
        checkpoint.demand_checkpoint(store, pair, patch)
    _, facts = checkpoint.body_bytes(
        [checkpoint.checkpoint_line(p["before"], r) for r, p in zip(RECORDS, POINTS, strict=True)]
    )
    arguments = (store, pair, facts, MANIFEST_ID, patch, ("source_authoritative", None), MANIFEST["schema"], "target")
    first = checkpoint.publish_checkpoint(*arguments)
    assert checkpoint.publish_checkpoint(*arguments) == first
    digest, header = checkpoint.demand_checkpoint(store, pair, patch)
    assert digest == first
    checkpoint.check_checkpoint(header, MANIFEST_ID, MANIFEST, patch, "target")
    for wrong in (("0" * 64, MANIFEST, patch, "target"), (MANIFEST_ID, MANIFEST, "0" * 64, "target"),
                  (MANIFEST_ID, MANIFEST, patch, "source"),
                  (MANIFEST_ID, {**MANIFEST, "body": {**MANIFEST["body"], "records": 9}}, patch, "target")):  # fmt: skip
        with pytest.raises(CheckpointMismatchError):
            checkpoint.check_checkpoint(header, *wrong)


def test_a_ledger_that_was_altered_is_refused(tmp_path):
    """A rollback acts on its lines."""
    store = MemoryStore()
    pair = log.register_pair(store, "n", "s", "t")
    patch = PatchRule().patch_id(MANIFEST_ID)
    lines = checkpoint.LineFile(tmp_path / "body")
    lines.write([ledger.ledger_line("0" * 64, "none", "already", None, "00")])
    facts = lines.close()
    digest = ledger.publish_ledger(store, tmp_path / "body", facts, "1" * 64, MANIFEST_ID, {"already": 1}, patch)
    assert checkpoint.log_once(store, pair, "ledger", digest) == checkpoint.log_once(store, pair, "ledger", digest) == 0
    assert [found for found, _ in ledger.find_ledgers(store, pair, patch)] == [digest]
    assert ledger.find_ledgers(store, pair, "0" * 64) == []
    ((_, header),) = ledger.find_ledgers(store, pair, patch)
    assert [len(batch) for batch in ledger.ledger_lines(store, header)] == [1]
    other = {**header, "body": {**header["body"], "sha256": store_other(store)}}
    with pytest.raises(LedgerMismatchError):
        list(ledger.ledger_lines(store, other))


def store_other(store):
    """Store a body that is no ledger's under its digest, and return it."""
    from airflow_delta_provider.core.store import blobs

    return blobs.put_blob(store, jsonc.dumps({"id": "x"}) + b"\n")
