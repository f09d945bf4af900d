"""Publication of a manifest: its order, its reruns, and kill -9 at every call in turn."""

import dataclasses
import itertools
from pathlib import Path

import faults
import pytest
from signers import example_signer

from airflow_delta_provider.core import log
from airflow_delta_provider.core.errors import (
    BodyDigestError,
    ContractError,
    InputPolicyError,
    ManifestContractError,
    OutputExistsError,
    SchemaError,
    StoreMissingError,
    StoreRetiredError,
    StructureError,
    SummaryError,
)
from airflow_delta_provider.core.signing import envelope_signer
from airflow_delta_provider.core.store import blobs, layout, publish, published, slots
from airflow_delta_provider.core.store.local import LocalStore
from airflow_delta_provider.core.store.memory import MemoryStore

EXAMPLE = Path(__file__).parents[1] / "vectors" / "example"
MANIFEST = "8ee20d554454d865b1186ab0bfabfee6f7c849136273917ec658aa88e0f3becc"
DIGESTS = "fe0a4031adad7d59ec65e69bbfb741699724be9f0d31cd680da388c582dbd2f1"
BODY = "601e47be91292204d443ade2adb1475e7e4c06fca24c3a28953b582d52860c57"
INDEX = "2cab9cbb20ce01461fe3e48a3bf6010109b41eb1512e565396713abafe94ad07"
ENVELOPE = "fdf6fb8c4d5fc2950774f0eab29f93ed4f11decdacea47222cd23b084fb130a5"
SLOT = slots.run_slot("dag", "run", "merge", -1)


def read(name: str) -> bytes:
    return (EXAMPLE / name).read_bytes()


@pytest.fixture(scope="module")
def sign():
    """Signs as the worked example is signed."""
    return envelope_signer(example_signer())


def example(sidecar: dict | None = None) -> publish.Publication:
    return publish.Publication(
        manifest=read("manifest.json"),
        schema=read("schema.json"),
        contract=read("contract.json"),
        structure=read("structure.json"),
        summary=read("summary.json"),
        body=read("body.jsonl"),
        page_index=read("body.idx"),
        sidecar=sidecar or {"run": "run"},
    )


def another() -> publish.Publication:
    """The same pair compared again with another result."""
    return dataclasses.replace(
        example({"run": "again"}),
        manifest=read("detail-digests.manifest.json"),
        contract=read("detail-digests.contract.json"),
        body=read("detail-digests.body.jsonl"),
    )


def history(store) -> list[tuple[str, str]]:
    """Kinds and refs of the log, sidecars by what they are for."""
    pair_id = log.pair_id_of("orders", "pg:shop.orders", "wh:shop.orders")
    entries = log.read_log(store, pair_id, listed=True)
    notes = {entry.seq: doc for m in (MANIFEST, DIGESTS) for entry, doc in published.sidecars_of(store, entries, m)}
    return [(e.kind, notes[e.seq]["for"] if e.seq in notes else e.ref) for e in entries]


class RecordingStore(MemoryStore):
    """Remembers what was created, in order."""

    def __init__(self):
        super().__init__()
        self.created = []

    def create(self, path, data):
        self.created.append(path)
        return super().create(path, data)


def test_everything_named_is_stored_before_what_names_it(sign):
    """Whoever sees a log entry finds all that it leads to."""
    store = RecordingStore()
    receipt = publish.publish(store, example(), sign=sign, slot_hex=SLOT)
    assert receipt == publish.Receipt(MANIFEST, MANIFEST, False, receipt.pair_id, 2)
    pair = f"pairs/{receipt.pair_id}"
    sidecar = log.read_log(store, receipt.pair_id)[1].ref
    order = [
        f"{pair}/pair.json",
        layout.blob_path("eee1ac85b68edad85a043fc8dc81bfebea49c2f95363b1a2d6fc4d5616b5acda"),
        layout.blob_path("c99e3a76c6f1605495dbd79908abfd6008ed08774d2ac070dbaec6570541fd45"),
        layout.blob_path("e5a37b16d060983e4027483cd66f767034660618addb0ee98626c16758279b77"),
        layout.blob_path("bfa8179efa7c1d9290e649c26933745c58e0bcede4024f577ea84342e6310ef3"),
        layout.blob_path(BODY),
        layout.blob_path(INDEX),
        layout.blob_path(MANIFEST),
        layout.blob_path(ENVELOPE),
        f"{pair}/slots/run/{SLOT}.json",
        layout.blob_path(sidecar),
        f"{pair}/log/{0:020d}.json",
        f"{pair}/log/{1:020d}.json",
        f"{pair}/log/{2:020d}.json",
    ]
    assert store.created == order
    assert history(store) == [("envelope", ENVELOPE), ("sidecar", MANIFEST), ("manifest", MANIFEST)]


def test_what_stands_beside_a_manifest_is_found_over_the_log(sign):
    """Nothing hashed refers to envelope, sidecar or page index."""
    store = MemoryStore()
    publish.publish(store, example(), sign=sign)
    publish.publish(store, another(), sign=sign)
    entries = log.read_log(store, log.pair_id_of("orders", "pg:shop.orders", "wh:shop.orders"))
    assert [data for _, data in published.envelopes_of(store, entries, MANIFEST)] == [read("manifest.dsse.json")]
    assert [doc for _, doc in published.sidecars_of(store, entries, MANIFEST)] == [
        {"for": MANIFEST, "page_index": INDEX, "run": "run"}
    ]
    assert published.open_page_index(store, entries, MANIFEST).read() == read("body.idx")
    assert published.open_page_index(store, entries, "0" * 64) is None
    del store._files[layout.blob_path(INDEX)]
    assert published.open_page_index(store, entries, MANIFEST) is None


def test_a_retired_body_is_told_from_a_missing_one():
    """Retention is no tampering."""
    store = MemoryStore()
    pair_id = publish.publish(store, example()).pair_id
    entries = log.read_log(store, pair_id)
    assert published.open_body(store, entries, BODY).read() == read("body.jsonl")
    del store._files[layout.blob_path(BODY)]
    with pytest.raises(StoreMissingError, match=r"\[DELTA_STORE_MISSING\]"):
        published.open_body(store, entries, BODY)
    log.append(store, pair_id, "retire", BODY)
    with pytest.raises(StoreRetiredError, match=r"\[DELTA_STORE_RETIRED\]"):
        published.open_body(store, log.read_log(store, pair_id), BODY)


def test_a_body_may_be_a_file_and_may_stay_out():
    """Bodies are large; under counts there is none."""
    store = MemoryStore()
    with (EXAMPLE / "body.jsonl").open("rb") as body:
        publish.publish(store, dataclasses.replace(example(), body=body))
    assert blobs.get_blob(store, BODY) == read("body.jsonl")
    store = MemoryStore()
    publish.publish(store, dataclasses.replace(example(), body=None, page_index=None))
    assert history(store) == [("sidecar", MANIFEST), ("manifest", MANIFEST)]
    with pytest.raises(StoreMissingError):
        blobs.get_blob(store, BODY)


def test_a_sub_manifest_is_stored_and_not_shown():
    """Only the merged verdict is logged."""
    store = MemoryStore()
    assert publish.store_manifest(store, example()) == MANIFEST
    assert blobs.get_blob(store, MANIFEST) == read("manifest.json")
    assert list(store.list("pairs")) == []


@pytest.mark.parametrize(
    ("part", "error"),
    [
        ("schema", SchemaError),
        ("contract", ContractError),
        ("structure", StructureError),
        ("summary", SummaryError),
        ("body", BodyDigestError),
    ],
)
def test_a_part_that_the_manifest_does_not_name_is_not_published(part, error):
    """A manifest without its own documents would be a finding for ever."""
    store = MemoryStore()
    with pytest.raises(error):
        publish.publish(store, dataclasses.replace(example(), **{part: b"{}"}))
    assert blobs.digest_of(b"{}") not in "".join(store.list())
    assert history(store) == []


def test_something_else_than_a_manifest_is_not_published():
    """The log must not name what nobody can read."""
    with pytest.raises(ManifestContractError, match=r"\[DELTA_MANIFEST_CONTRACT\]"):
        publish.publish(MemoryStore(), dataclasses.replace(example(), manifest=b"{}"))


def test_a_repeated_verdict_is_one_manifest_and_two_sidecars(sign):
    """Every run is visible, the evidence is there once."""
    store = MemoryStore()
    publish.publish(store, example({"run": "1"}), sign=sign)
    publish.publish(store, example({"run": "2"}), sign=sign)
    assert [kind for kind, _ in history(store)] == ["envelope", "sidecar", "manifest", "sidecar"]


def test_a_retry_that_computes_another_manifest_stands_by_the_first(sign):
    """A task run has one result, or downstream tasks of one run would see two."""
    store = MemoryStore()
    first = publish.publish(store, example(), sign=sign, slot_hex=SLOT)
    second = publish.publish(store, another(), sign=sign, slot_hex=SLOT)
    assert second == publish.Receipt(MANIFEST, DIGESTS, True, first.pair_id, first.seq)
    assert history(store)[3:] == [("sidecar", MANIFEST)]
    entries = log.read_log(store, first.pair_id)
    _, sidecar = list(published.sidecars_of(store, entries, MANIFEST))[1]
    assert sidecar == {"computed": DIGESTS, "for": MANIFEST, "reused": True, "run": "again"}
    with pytest.raises(StoreMissingError):
        blobs.get_blob(store, DIGESTS)


def test_a_retry_may_log_a_second_manifest(sign):
    """Under recompute both are visible, and the slot keeps the first."""
    store = MemoryStore()
    first = publish.publish(store, example(), slot_hex=SLOT)
    second = publish.publish(store, another(), slot_hex=SLOT, on_rerun="recompute")
    assert second == publish.Receipt(DIGESTS, DIGESTS, False, first.pair_id, 3)
    assert [ref for kind, ref in history(store) if kind == "manifest"] == [MANIFEST, DIGESTS]
    assert slots.read_slot(store, first.pair_id, "run", SLOT) == MANIFEST


def test_a_retry_may_be_refused():
    """Who wants neither is told."""
    store = MemoryStore()
    publish.publish(store, example(), slot_hex=SLOT)
    publish.publish(store, example(), slot_hex=SLOT, on_rerun="refuse")
    with pytest.raises(OutputExistsError, match=rf"\[DELTA_OUTPUT_EXISTS\] .*{MANIFEST}"):
        publish.publish(store, another(), slot_hex=SLOT, on_rerun="refuse")
    with pytest.raises(InputPolicyError, match=r"\[DELTA_INPUT_POLICY\]"):
        publish.publish(store, example(), on_rerun="overwrite")


def test_a_try_that_loses_the_slot_stands_by_the_winner():
    """Two tries of one run may live at the same time: the slot decides, not the first look."""

    class RacingStore(MemoryStore):
        raced = False

        def create(self, path, data):
            if "/slots/run/" in path and not self.raced:
                self.raced = True
                publish.publish(self, example(), slot_hex=SLOT)
            return super().create(path, data)

    store = RacingStore()
    receipt = publish.publish(store, another(), slot_hex=SLOT)
    assert (receipt.manifest, receipt.reused) == (MANIFEST, True)
    assert [ref for kind, ref in history(store) if kind == "manifest"] == [MANIFEST]


def test_a_claimed_but_unlogged_manifest_is_made_visible_by_the_retry(sign):
    """The first try died between its claim and its log entry, and the data changed since."""
    store = MemoryStore()
    publish.store_manifest(store, example())
    pair_id = log.register_pair(store, "orders", "pg:shop.orders", "wh:shop.orders")
    slots.claim(store, pair_id, "run", SLOT, MANIFEST)
    receipt = publish.publish(store, another(), sign=sign, slot_hex=SLOT)
    assert (receipt.manifest, receipt.reused) == (MANIFEST, True)
    assert history(store) == [("envelope", ENVELOPE), ("sidecar", MANIFEST), ("manifest", MANIFEST)]


def check_consistent(root: Path) -> list[tuple[str, str]]:
    """Whatever was killed: what is visible is whole, what is logged is complete, the log is dense."""
    store = LocalStore(root)
    for path in store.list():
        layout.checked_path(path)
        if path.startswith("blobs/"):
            blobs.get_blob(store, path.rsplit("/", 1)[1])
    found = history(store) if (root / "pairs").exists() else []
    if ("manifest", MANIFEST) in found:
        for name in ("schema", "contract", "structure", "summary", "manifest", "dsse"):
            file = {"dsse": "manifest.dsse.json"}.get(name, f"{name}.json")
            assert blobs.get_blob(store, blobs.digest_of(read(file))) == read(file)
        assert blobs.get_blob(store, BODY) == read("body.jsonl")
    return found


CLEAN = [("envelope", ENVELOPE), ("sidecar", MANIFEST), ("manifest", MANIFEST)]


@pytest.fixture
def no_sync(monkeypatch):
    """Killing a process loses nothing that the kernel holds, so these rounds need no medium."""
    import airflow_delta_provider.core.store.local as local

    monkeypatch.setattr(local, "_sync", lambda handle: None)


def test_a_publication_killed_at_every_store_call_ends_the_same(tmp_path, sign, no_sync):
    """kill -9 at call 1, 2, 3 ... and a rerun: same digests, nothing half-visible, nothing twice."""

    def work(root):
        return lambda tick: publish.publish(
            faults.FaultyStore(LocalStore(root), tick), example(), sign=sign, slot_hex=SLOT
        )

    for number in itertools.count(1):
        root = tmp_path / str(number)
        killed = faults.killed_at(number, work(root))
        assert check_consistent(root) == CLEAN[: len(check_consistent(root))]
        receipt = publish.publish(LocalStore(root), example(), sign=sign, slot_hex=SLOT)
        assert (receipt.manifest, receipt.reused) == (MANIFEST, False)
        assert check_consistent(root)[:3] == CLEAN
        if not killed:
            break
        assert number < faults.POINTS_MAX
    assert number > 30


def test_a_publication_killed_at_every_file_call_ends_the_same(tmp_path, sign):
    """Between the system calls of one write, too: half a write, a link without its unlink, a folder not yet synced."""
    small = dataclasses.replace(example(), page_index=None)
    assert publish.publish(MemoryStore(), small, sign=sign).manifest == MANIFEST
    for number in itertools.count(1, 7):  # 7 is no multiple of the calls of one write: all of their places come up
        root = tmp_path / str(number)
        killed = faults.killed_at_file_call(
            number, lambda root=root: publish.publish(LocalStore(root), small, sign=sign)
        )
        assert check_consistent(root) == CLEAN[: len(check_consistent(root))]
        assert publish.publish(LocalStore(root), small, sign=sign).manifest == MANIFEST
        assert check_consistent(root)[:3] == CLEAN
        if not killed:
            break
        assert number < faults.POINTS_MAX
    assert number > 200


@pytest.mark.parametrize(
    ("shards", "kept", "left_out"), [(100_000, True, None), (160_000, False, ["shards"])], ids=["many", "too many"]
)
def test_the_facts_of_many_shards_make_no_manifest_unreadable(shards, kept, left_out):
    """What nobody can read again loses the page index and the age of the manifest, and for a sweep the next sweep."""
    from airflow_delta_provider.core.verify_store import VERIFIED, verify_published

    store = MemoryStore()
    facts = {
        "finished_at": "2026-01-01T00:00:00.000+00:00",
        "shards": [{"label": f"[{n:0100} .. )"} for n in range(shards)],
    }
    receipt = publish.publish(store, example(facts))
    check, _ = verify_published(store, receipt.manifest)
    assert (check.verdict, check.findings) == (VERIFIED, [])
    ((_, sidecar),) = published.sidecars_of(store, log.read_log(store, receipt.pair_id), MANIFEST)
    assert (sidecar["finished_at"], "shards" in sidecar) == ("2026-01-01T00:00:00.000+00:00", kept)
    assert (sidecar.get("left_out"), sidecar["page_index"]) == (left_out, INDEX)
