"""The log of a pair: its bytes, its head, its chain, and what happens when many write or someone cuts it."""

import hashlib
import multiprocessing
from pathlib import Path

import pytest

from airflow_delta_provider.core import log
from airflow_delta_provider.core.errors import (
    InputDigestError,
    LogChainError,
    LogGapError,
    StoreConflictError,
    StoreFileError,
    StoreMissingError,
    StoreRetiredError,
)
from airflow_delta_provider.core.store import layout, slots
from airflow_delta_provider.core.store.local import LocalStore
from airflow_delta_provider.core.store.memory import MemoryStore

EXAMPLE = Path(__file__).parents[1] / "vectors" / "example"
PAIR = "0123456789abcdef" * 2
MANIFEST = "8ee20d554454d865b1186ab0bfabfee6f7c849136273917ec658aa88e0f3becc"
CHECKPOINT = "e1a5d68324fab2231ee1e146c966547ad99f021435dbffbe63eb17b9373b29c9"
LEDGER = "53fe7fbf0ae954aff2aab49085642c3331ad1e46fb4d7a8b3f1a2b0cc5d191b8"


def ref(number: int) -> str:
    return hashlib.sha256(b"%d" % number).hexdigest()


def filled(count: int, kind: str = "manifest") -> MemoryStore:
    store, prev = MemoryStore(), None
    for seq in range(count):
        entry = log.Entry(kind, prev, ref(seq), seq)
        store.create(layout.log_path(PAIR, seq), entry.data)
        prev = entry.digest_hex
    return store


class CountingStore(MemoryStore):
    """Counts the reads of log entries."""

    reads = 0

    def read(self, path, limit_bytes=2**20):
        self.reads += "/log/" in path
        return super().read(path, limit_bytes)

    def list(self, prefix=""):
        raise AssertionError("listed")


def test_appending_gives_the_published_bytes():
    """A log must read the same to every tool."""
    store = MemoryStore()
    log.append(store, PAIR, "manifest", MANIFEST)
    log.append(store, PAIR, "checkpoint", CHECKPOINT)
    log.append(store, PAIR, "ledger", LEDGER)
    for seq in range(3):
        assert store.read(layout.log_path(PAIR, seq)) == (EXAMPLE / f"log-{seq}.json").read_bytes()
    assert [entry.digest_hex for entry in log.read_log(store, PAIR)] == [
        "e6198c10a8a6d500b29748b980e73142e5c4de96135faec44bda3f75520dafae",
        "36417a3e562d899bccf0d290fbb1ad1edf5990298b16d25ea6f2fa728c7777ad",
        "960fe8193493eda09e3240f1b877c670eda3321ef405ccda2c88d6c5c0bc975b",
    ]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 100])
def test_the_head_is_found_whatever_the_length(count):
    """Doubling and bisection must not be off by one: an append to the wrong place forks the log."""
    newest = log.head(filled(count), PAIR)
    assert (newest.seq if newest else -1) == count - 1


def test_the_head_of_a_long_log_takes_few_reads_and_no_list():
    """Object stores list late and slowly."""
    store = CountingStore()
    store._files = filled(1000)._files
    assert log.head(store, PAIR).seq == 999
    assert store.reads <= 40


def test_an_append_next_to_a_known_entry_asks_for_little():
    """The three entries of one publication come one after the other."""
    store = CountingStore()
    store._files = filled(1000)._files
    known = log.read_entry(store, PAIR, 998)
    store.reads = 0
    assert log.head(store, PAIR, known).seq == 999
    assert store.reads <= 3
    assert log.append(store, PAIR, "manifest", ref(1), after=known).seq == 1000
    assert store.reads <= 8


def test_a_kind_that_never_came_is_not_looked_for_without_end(monkeypatch):
    """The first checkpoint of a log of a million entries must not read them all."""
    monkeypatch.setattr(log, "LOOK_BACK_MAX", 10)
    store = CountingStore()
    store._files = filled(500)._files
    assert log.append(store, PAIR, "checkpoint", ref(1)).seq == 500
    assert store.reads < 60


@pytest.mark.parametrize("count", [1, 31, 32, 33, 34, 63, 64, 65, 255, 256, 257, 1000, 1025])
@pytest.mark.parametrize("known", [0, 7, 30])
def test_the_head_is_found_from_any_known_entry(count, known):
    """Several numbers are asked for at once: no probe may be lost between two rounds."""
    store = filled(count)
    seen = log.read_entry(store, PAIR, min(known, count - 1))
    assert log.head(store, PAIR, seen).seq == count - 1
    assert [entry.seq for entry in log.walk_back(store, PAIR, log.head(store, PAIR))] == list(range(count))[::-1]
    assert len(log.read_log(store, PAIR)) == count


def test_only_the_newest_entry_of_a_kind_counts_as_the_same():
    """Equal, different, equal again is three verdicts."""
    store = MemoryStore()
    assert log.append(store, PAIR, "manifest", ref(1)).seq == 0
    assert log.append(store, PAIR, "manifest", ref(1)).seq == 0
    assert log.append(store, PAIR, "sidecar", ref(9)).seq == 1
    assert log.append(store, PAIR, "manifest", ref(1)).seq == 0
    assert log.append(store, PAIR, "manifest", ref(2)).seq == 2
    assert log.append(store, PAIR, "manifest", ref(1)).seq == 3
    assert log.append(store, PAIR, "sidecar", ref(1)).seq == 4
    assert [entry.kind for entry in log.read_log(store, PAIR, listed=True)] == [
        "manifest",
        "sidecar",
        "manifest",
        "manifest",
        "sidecar",
    ]


@pytest.mark.parametrize("other", ["another ref", "the same ref"])
def test_the_loser_of_a_race_reads_again_and_takes_the_next_number(other):
    """The winner's entry is part of the chain; where it says the same, there is nothing to add."""
    winner = ref(7) if other == "another ref" else ref(8)

    class RacingStore(MemoryStore):
        raced = False

        def create(self, path, data):
            if "/log/" in path and not self.raced:
                self.raced = True
                log.append(self, PAIR, "manifest", winner)
            return super().create(path, data)

    store = RacingStore()
    entry = log.append(store, PAIR, "manifest", ref(8))
    assert entry.seq == (1 if other == "another ref" else 0)
    assert len(log.read_log(store, PAIR, listed=True)) == entry.seq + 1


def test_an_unknown_kind_or_ref_is_not_logged():
    """What is logged is there for ever."""
    store = MemoryStore()
    with pytest.raises(LogChainError, match=r"\[DELTA_LOG_CHAIN\]"):
        log.append(store, PAIR, "note", ref(1))
    with pytest.raises(InputDigestError):
        log.append(store, PAIR, "manifest", "x")
    assert log.read_log(store, PAIR, listed=True) == []


def tampered(seq: int, data: bytes | None, count: int = 8) -> MemoryStore:
    store = filled(count)
    if data is None:
        del store._files[layout.log_path(PAIR, seq)]
    else:
        store._files[layout.log_path(PAIR, seq)] = data
    return store


@pytest.mark.parametrize("seq", [0, 1, 2, 4, 5, 6])
def test_a_missing_entry_is_a_gap(seq):
    """A cut log shows less than happened."""
    with pytest.raises(LogGapError, match=r"\[DELTA_LOG_GAP\]"):
        log.read_log(tampered(seq, None), PAIR, listed=True)


def test_a_gap_inside_is_found_without_listing():
    """Bisection found entries on both sides of it."""
    with pytest.raises(LogGapError, match="has no entry 4, but later ones"):
        log.read_log(tampered(4, None), PAIR)
    store = tampered(4, None)
    with pytest.raises(LogGapError):
        list(log.walk_back(store, PAIR, log.head(store, PAIR)))


@pytest.mark.parametrize(
    "data",
    [
        log.Entry("manifest", ref(99), ref(4), 4).data,
        log.Entry("manifest", None, ref(4), 4).data,
        log.Entry("manifest", ref(99), ref(4), 5).data,
        b"",
        b"{",
        b"[]",
        log.Entry("manifest", ref(99), ref(4), 4).data + b"\n",
        log.Entry("manifest", ref(99), ref(4), 4).data.replace(b'"seq":4', b'"seq":4,"x":1'),
        log.Entry("manifest", ref(99), ref(4), 4).data.replace(b'"seq":4', b'"seq":true'),
        log.Entry("manifest", ref(99), ref(4), 4).data.replace(b"manifest", b"verdict"),
        log.Entry("manifest", ref(99), ref(4), 4).data.replace(b"delta-log/1", b"delta-log/2"),
        log.Entry("manifest", ref(99), ref(4).upper(), 4).data,
    ],
    ids=[
        "other prev", "no prev", "other number", "empty", "cut", "list", "line feed", "more members", "bool", "kind",
        "format", "upper case",
    ],
)  # fmt: skip
def test_a_changed_entry_breaks_the_chain(data):
    """Every bit of an entry is covered by the next one."""
    with pytest.raises(LogChainError, match=r"\[DELTA_LOG_CHAIN\] Entry 4"):
        log.read_log(tampered(4, data), PAIR)


def test_a_rewritten_entry_is_found_by_the_next_one():
    """The entry alone looks right; its successor tells."""
    store = filled(8)
    good = log.read_entry(store, PAIR, 4)
    store._files[layout.log_path(PAIR, 4)] = log.Entry(good.kind, good.prev, ref(1000), 4).data
    with pytest.raises(LogChainError, match="Entry 5 does not follow"):
        log.read_log(store, PAIR)
    with pytest.raises(LogChainError, match="Entry 5 does not follow"):
        list(log.walk_back(store, PAIR, log.head(store, PAIR)))


def test_a_huge_entry_is_refused_before_it_is_read():
    """A hostile store cannot fill memory."""
    with pytest.raises(StoreFileError):
        log.read_log(tampered(4, b"x" * 10_000), PAIR)


def test_a_pair_is_stored_under_its_id():
    """The published example pair has this id; parties that never met find the same log."""
    store = MemoryStore()
    pair_id = log.register_pair(store, "orders", "pg:shop.orders", "wh:shop.orders")
    expected = b'{"name":"orders","source":"pg:shop.orders","target":"wh:shop.orders"}'
    assert store.read(f"pairs/{pair_id}/pair.json") == expected
    assert pair_id == hashlib.sha256(expected).hexdigest()[:32]
    assert pair_id == log.pair_id_of("orders", "pg:shop.orders", "wh:shop.orders")
    assert log.register_pair(store, "orders", "pg:shop.orders", "wh:shop.orders") == pair_id
    other = log.register_pair(store, "orders", "pg:shop.orders", "wh:shop.orders_v2")
    assert log.read_pair(store, pair_id)["target"] == "wh:shop.orders"
    assert sorted(log.list_pairs(store)) == sorted([pair_id, other])


def test_a_changed_pair_is_a_conflict():
    """The id is made from the content."""
    store = MemoryStore()
    pair_id = log.register_pair(store, "orders", "a", "b")
    store._files[f"pairs/{pair_id}/pair.json"] = b'{"name":"orders","source":"a","target":"c"}'
    with pytest.raises(StoreConflictError, match=r"\[DELTA_STORE_CONFLICT\]"):
        log.read_pair(store, pair_id)
    with pytest.raises(StoreConflictError):
        log.register_pair(store, "orders", "a", "b")
    with pytest.raises(StoreMissingError):
        log.read_pair(store, PAIR)


def test_a_slot_is_claimed_once():
    """Who comes second learns who was first, and by what."""
    store = MemoryStore()
    assert slots.run_slot("ab", "c", "t", -1) != slots.run_slot("a", "bc", "t", -1)
    text = b"\0\0\0\1d\0\0\0\1r\0\0\0\1t\0\0\0\2-1"
    assert slots.run_slot("d", "r", "t", -1) == hashlib.sha256(text).hexdigest()
    slot = slots.run_slot("dag", "manual__1", "compare.merge", -1)
    assert (
        slot
        == hashlib.sha256(
            b"\x00\x00\x00\x03dag\x00\x00\x00\x09manual__1\x00\x00\x00\x0dcompare.merge\x00\x00\x00\x02-1"
        ).hexdigest()
    )
    assert slots.read_slot(store, PAIR, "run", slot) is None
    assert slots.claim(store, PAIR, "run", slot, ref(1)) is None
    assert slots.claim(store, PAIR, "run", slot, ref(2)) == ref(1)
    assert slots.claim(store, PAIR, "run", slot, ref(1)) == ref(1)
    assert slots.read_slot(store, PAIR, "run", slot) == ref(1)
    assert slots.read_slot(store, PAIR, "checkpoint", slot) is None
    assert store.read(f"pairs/{PAIR}/slots/run/{slot}.json") == b'{"ref":"%b"}' % ref(1).encode()


@pytest.mark.parametrize("data", [b"", b"{}", b'{"ref":"x"}', b'{"ref": "' + ref(1).encode() + b'"}'])
def test_a_slot_that_holds_no_pointer_is_a_conflict(data):
    """A damaged claim must not look like a free one."""
    store = MemoryStore()
    store.create(layout.slot_path(PAIR, "run", ref(1)), data)
    with pytest.raises(StoreConflictError, match="holds no pointer"):
        slots.read_slot(store, PAIR, "run", ref(1))
    with pytest.raises(StoreConflictError, match="holds no pointer"):
        slots.claim(store, PAIR, "run", ref(1), ref(1))


def test_a_retired_digest_is_told_from_a_missing_one():
    """Retention is no tampering."""
    store = filled(2, "retire")
    entries = log.read_log(store, PAIR)
    with pytest.raises(StoreRetiredError, match=r"\[DELTA_STORE_RETIRED\] .* log entry 1"):
        log.refuse_retired(entries, ref(1))
    log.refuse_retired(entries, ref(5))


def append_many(root: str, writer: int, start: "multiprocessing.synchronize.Barrier") -> None:
    store = LocalStore(Path(root))
    start.wait()
    for number in range(12):
        log.append(store, PAIR, "sidecar", ref(1000 * writer + number))


def test_eight_processes_write_one_log_without_gap_or_fork(tmp_path):
    """Mapped tasks of many runs publish at the same moment."""
    context = multiprocessing.get_context("fork")
    start = context.Barrier(8)
    workers = [context.Process(target=append_many, args=(str(tmp_path), writer, start)) for writer in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0] * 8
    entries = log.read_log(LocalStore(tmp_path), PAIR, listed=True)
    assert len(entries) == 96
    assert sorted(entry.ref for entry in entries) == sorted(ref(1000 * w + n) for w in range(8) for n in range(12))
    for writer in range(8):
        mine = [ref(1000 * writer + number) for number in range(12)]
        assert [entry.ref for entry in entries if entry.ref in mine] == mine
