"""Results that outlive their run: found by what was compared and how, and by the proved content of both sides.

A result is left only where both sides prove before and after the run that they held the same content, and it is found only
by the same proof. Where a side proves nothing, what a run finished counts in that run alone (engine/resume.py).
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, BinaryIO

import airflow_delta_provider
from airflow_delta_provider.core import jsonc
from airflow_delta_provider.core.errors import DeltaError, InputShardError
from airflow_delta_provider.core.plan import KeyRange
from airflow_delta_provider.core.store import layout
from airflow_delta_provider.core.store.store import Store
from airflow_delta_provider.engine.named import named, proving
from airflow_delta_provider.engine.narrow import FACTS
from airflow_delta_provider.engine.opened import Opened
from airflow_delta_provider.engine.planning import SIDES
from airflow_delta_provider.engine.work import Work

PROVED = "proved"
_SERIES = b"delta-proved/1\0"
_RESULT = b"delta-proved-result/1\0"
_CUTS = b"delta-proved-cuts/1\0"
KEPT_FACTS = ("population", "records", *FACTS)
"""What a result says of a range beside its raw comparison."""
READERS = ("pyarrow", "deltalake", "pyiceberg")
"""What reads the sides that can be proved: another version may read other values from the same bytes."""
ROWS_FACTOR_MAX = 2
"""How far the number of rows may be from that of an earlier run whose cuts are used again."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One key range under proof: the key of its result, and on which parts of each side it depends (places in them)."""

    key: str
    needs: Mapping[str, Sequence[int]]

    def form(self) -> dict[str, Any]:
        """Return it as a stored shard holds it."""
        return {"key": self.key, "needs": [[name, list(self.needs[name])] for name in SIDES]}


@dataclass(frozen=True, slots=True)
class Proof:
    """What both sides hold before a run.

    Shape: ``series`` names all that decides a result but content and range: the specification, the columns, the key of
    keyed digests, the versions of this package and of what reads the files; it is "" where nothing is proved, and ``reason`` then says why. ``parts`` has for
    each side its parts with their proofs; ``seen`` digests what else is known of them, such as times of change.
    """

    series: str = ""
    reason: str = ""
    parts: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    seen: str = ""

    def form(self) -> dict[str, Any]:
        """Return the proof as a stored plan holds it."""
        parts = [[name, [list(part) for part in self.parts[name]]] for name in SIDES if name in self.parts]
        return {"parts": parts, "reason": self.reason, "seen": self.seen, "series": self.series}

    @classmethod
    def of_form(cls, form: Mapping[str, Any]) -> Proof:
        """Read what ``form`` gave."""
        return cls(form["series"], form["reason"], dict(form["parts"]), form["seen"])


def prove(opened: Opened) -> Proof | None:
    """Return what two opened sides hold, read now; None where the specification does not ask for it."""
    if opened.spec.resume != PROVED:
        return None
    if opened.spec.recheck_attempts:
        return Proof(reason="recheck: sides that may change while they are read hold nothing that could be proved")
    parts: dict[str, Sequence[Sequence[str]]] = {}
    for name in SIDES:
        side = proving(opened.side(name))
        if side is None:
            return Proof(reason=f"{name}: {opened.side(name).kind} gives no proof of its state")
        with named(name):
            parts[name] = side.state()
    return Proof(_series(opened), "", parts, _seen(opened))


def read_others(opened: Opened, proof: Proof | None) -> bool:
    """Return whether sides that a task opened are seen to be others than were proved, so that its result proves nothing.

    Sizes and times of change are looked at: a task on another machine may see another file under the same name.
    """
    return proof is not None and bool(proof.series) and _seen(opened) != proof.seen


def _seen(opened: Opened) -> str:
    facts = json.dumps([opened.side(name).facts() for name in SIDES], sort_keys=True, default=str)
    return hashlib.sha256(facts.encode()).hexdigest()


def _series(opened: Opened) -> str:
    key = opened.comparison.hmac_key
    about = [
        opened.spec.form,
        opened.shared.identity,
        [[(each.name, str(each.type), each.engine_type) for each in opened.side(name).columns] for name in SIDES],
        None if key is None else [key.key_id, hmac.new(key.secret, _SERIES, "sha256").hexdigest()],
        airflow_delta_provider.__version__,
        [_version_of(package) for package in READERS],
    ]
    return hashlib.sha256(_SERIES + json.dumps(about, sort_keys=True).encode()).hexdigest()


def _version_of(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def piece_of(opened: Opened, proof: Proof, key_range: KeyRange) -> Piece:
    """Return the key of the result of one range: a digest over the series, the range, and every part that it depends on."""
    needs = {}
    for name in SIDES:
        side = proving(opened.side(name))
        whole = range(len(proof.parts[name]))
        needs[name] = list(whole if side is None else side.needs(opened.request(name, key_range, ordered=False)))
    held = [[list(proof.parts[name][at]) for at in needs[name]] for name in SIDES]
    about = json.dumps([proof.series, key_range.document(), held], sort_keys=True)
    return Piece(hashlib.sha256(_RESULT + about.encode()).hexdigest(), needs)


@dataclass(frozen=True, slots=True)
class Kept:
    """The results of one series in a store: those of the last run that left any."""

    work: Work

    @classmethod
    def of(cls, store: Store, series: str) -> Kept:
        """Return where the results of a series lie."""
        return cls(Work(store, series))

    def cuts(self, request: object, rows: int) -> list[KeyRange] | None:
        """Return the ranges of the earlier run, so that its results fit; None where the table has outgrown them."""
        found = self.work.facts(self.work.named(_CUTS, json.dumps(request)))
        if found is None or not found["rows"] <= rows * ROWS_FACTOR_MAX or not rows <= found["rows"] * ROWS_FACTOR_MAX:
            return None
        bounds = [[None if one is None else bytes.fromhex(one) for one in pair] for pair in found["ranges"]]
        return [KeyRange(lower, upper) for lower, upper in bounds]

    def find(self, key: str) -> dict[str, Any] | None:
        """Return the facts of the result under a key; ``digest`` is its raw comparison. None where there is none."""
        return self.work.facts(self.work.named(_RESULT, key))

    def raw(self, digest: str) -> BinaryIO | None:
        """Return the bytes of a raw comparison, None where another run has removed them; who reads them must hash them."""
        try:
            return self.work.open(digest)
        except InputShardError:
            return None

    def leave(
        self,
        request: object,
        rows: int,
        ranges: Sequence[KeyRange],
        results: Sequence[tuple[str, Mapping[str, Any], Callable[[], BinaryIO]]],
        manifest: str,
    ) -> None:
        """Keep results in place of those of earlier runs: for each its key, its facts, and what opens its raw comparison.

        A raw comparison is there before what names it. What an earlier run left is removed last. ``manifest`` is what they
        were published in: by it an audit of the store knows the folder.
        """
        receipt = self.work.named(_RESULT, "")
        self.work.store.remove_work(receipt)
        self.work.store.create(receipt, manifest.encode())
        keep = {receipt.rsplit("/", 1)[-1]}
        for key, facts, open_raw in results:
            with open_raw() as raw:
                digest = self.work.put(raw)
            path = self.work.named(_RESULT, key)
            kept = {name: facts[name] for name in KEPT_FACTS if name in facts}
            self.work.store.create(path, jsonc.dumps({**kept, "digest": digest}))
            keep |= {digest, path.rsplit("/", 1)[-1]}
        path = self.work.named(_CUTS, json.dumps(request))
        self.work.store.remove_work(path)
        pairs = [[piece.document()[bound] for bound in ("lower", "upper")] for piece in ranges]
        self.work.store.create(path, jsonc.dumps({"ranges": pairs, "rows": rows}))
        keep.add(path.rsplit("/", 1)[-1])
        found = list(self.work.store.list(layout.work_folder(self.work.slot_hex)))
        self.work.store.remove_work(*(old for old in found if old.rsplit("/", 1)[-1] not in keep))


def held_still(proof: Proof, reopen: Callable[[], Opened]) -> str:
    """Return "" where both sides, opened anew and read again, hold what they held before the run; else why not."""
    try:
        with reopen() as again:
            now = prove(again)
    except DeltaError as error:
        return f"after the run: {error.code}"
    return "" if now is not None and now.form() == proof.form() else "a side changed during the run"


def resume_form(
    proof: Proof | None, labels: Sequence[str], skipped: Mapping[int, Piece], reason: str
) -> dict[str, Any]:
    """Return what the sidecar says of results that were taken and left: nothing where none was asked for.

    ``skipped``: by its place among ``labels``, each range that was not read, with the parts whose proof stands for it.
    ``reason``: why nothing was left for later runs, "" where it was.
    """
    if proof is None:
        return {}
    if not proof.series:
        return {"resume": {"mode": "run", "reason": proof.reason}}
    told = [
        {"key": piece.key, "label": labels[at], **{name: _names(proof, name, piece.needs[name]) for name in SIDES}}
        for at, piece in sorted(skipped.items())
    ]
    proofs = {name: [list(part) for part in proof.parts[name]] for name in SIDES}
    left = {"left": False, "reason": reason} if reason else {"left": True}
    return {"resume": {"mode": PROVED, "proofs": proofs, "skipped": told, **left}}


def _names(proof: Proof, name: str, needs: Sequence[int]) -> Any:
    """Return the names of the parts, or ``all``."""
    return "all" if len(needs) == len(proof.parts[name]) else [proof.parts[name][at][0] for at in needs]
