"""Random pairs of tables in random engines: what the command line says is what the slow oracle says.

``DELTA_EXAMPLES`` pairs (200), from ``DELTA_SEED`` (of the day, printed); ``DELTA_CASES_ENGINES`` narrows the engines.
One pair again: ``DELTA_SEED=<its seed> DELTA_EXAMPLES=1``.
"""

from __future__ import annotations

import json
import os
import shutil
import traceback
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import servers
import yaml
from cases.runner import call
from differential.cases import Case, draw_case
from differential.catalog import ENGINES
from differential.loading import Loader, Table
from differential.oracle import reconcile

SEED = int(os.environ.get("DELTA_SEED") or 20_250_101)
EXAMPLES = int(os.environ.get("DELTA_EXAMPLES") or 200)
PARTS = 4
"""The pairs are shared out to so many tests, for workers."""
VALUE_CODES = ("DELTA_VALUE_TEXT", "DELTA_VALUE_JSON", "DELTA_VALUE_RANGE")
WRONG_MAX = 20
"""After so many wrong answers a part ends."""


def engines_at_hand() -> tuple[str, ...]:
    """Return the engines to draw from."""
    named = (os.environ.get("DELTA_CASES_ENGINES") or " ".join(ENGINES)).replace(",", " ").split()
    found = []
    for engine in ENGINES:
        server = {"postgresql": "postgresql", "mysql": "mariadb"}.get(engine)
        if engine in named and (
            server is None or os.environ.get("DELTA_REQUIRE_ALL") == "1" or servers.installed(server)
        ):
            found.append(engine)
    return tuple(found)


def specification(case: Case, places: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the complete specification of a case."""
    form: dict[str, Any] = {"name": f"pair-{case.seed}", "schema_version": "1", **case.form}
    for at, side in enumerate(("source", "target")):
        form[side] = {**places[at], "label": f"pair:{side}"}
        engine = case.engines[at]
        if engine in ("csv", "jsonl"):
            known = engine == "jsonl" and not case.written[at]
            types = {
                name: each.kind for name, each in case.types[at].items() if known or not left_open(case, name, side)
            }
            if types:
                form.setdefault(engine, {}).setdefault("types", {}).update(types)
    return form


def left_open(case: Case, name: str, side: str) -> bool:
    """Tell whether a text file's column has its type from the other side."""
    return any(column.name == name and column.undeclared == side for column in case.columns)


def artifact(store: Path, digest: str) -> bytes:
    """Return a stored artifact."""
    return (store / "blobs" / "sha256" / digest[:2] / digest[2:4] / digest).read_bytes()


def found_by_the_product(form: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run the command line; return the code of its refusal, or records, population and summary."""
    path, store = folder / "spec.yaml", folder / "store"
    path.write_text(yaml.safe_dump(form, allow_unicode=True, sort_keys=False, width=1000), encoding="utf-8")
    answer = call(["run", str(path), "--store", str(store), "--json"])
    if answer.code not in (0, 1):
        return {"refused": answer.output["error"]["code"], "message": answer.output["error"]["message"]}
    manifest = json.loads(artifact(store, answer.output["manifest"]))
    lines = artifact(store, manifest["body"]["sha256"]).decode().split("\n")[:-1]
    summary = json.loads(artifact(store, manifest["summary"]["sha256"]))
    records = [json.loads(line) for line in lines]
    assert answer.code == (1 if records else 0)
    return {
        "refused": None,
        "records": [{name: part for name, part in record.items() if name != "id"} for record in records],
        "population": manifest["population"],
        "columns": summary["columns"],
        "rules": summary["rules"],
    }


def differences(case: Case, found: dict[str, Any]) -> list[str]:
    """Return how the product's answer differs from the oracle's."""
    wanted = reconcile(case.comparison)
    if wanted.refused or found["refused"]:
        if wanted.refused == found["refused"] or (wanted.refused in VALUE_CODES and found["refused"]):
            return []
        return [f"refused: {found['refused']} {found.get('message')} instead of {wanted.refused}"]
    wrong = []
    for name in ("population", "columns", "rules"):
        if found[name] != getattr(wanted, name):
            wrong.append(f"{name}: {found[name]} instead of {getattr(wanted, name)}")
    mixed = any(pair.source != pair.target for pair in case.comparison.key)
    records = [[shown(record, mixed) for record in part] for part in (found["records"], wanted.records)]
    if records[0] != records[1]:
        wrong += [f"found only: {record}" for record in records[0] if record not in records[1]]
        wrong += [f"missing: {record}" for record in records[1] if record not in records[0]]
        wrong = wrong or ["the order of the records"]
    return wrong


def shown(record: dict[str, Any], mixed: bool) -> dict[str, Any]:
    """Return a record without raw keys where their form is not pinned: sides with different types."""
    return {name: part for name, part in record.items() if not (mixed and name in ("source_key", "target_key"))}


def check(case: Case, loader: Loader, folder: Path) -> list[str]:
    """Write a case, run it, and return what is wrong."""
    folder.mkdir()
    places = []
    for at, side in enumerate(("source", "target")):
        name = f"pair_{case.seed}_{side}"
        table = Table(case.engines[at], name, case.types[at], case.written[at], group_rows=case.group_rows)
        places.append(loader.write(table, folder))
    form = specification(case, places)
    wrong = differences(case, found_by_the_product(form, folder))
    if wrong:
        types = {c.name: (c.source.native, c.target.native) for c in case.columns}
        told = {name: part for name, part in form.items() if name not in ("source", "target")}
        wrong.insert(0, f"DELTA_SEED={case.seed} DELTA_EXAMPLES=1: {' / '.join(case.engines)} {types} {told}")
    return wrong


@pytest.fixture(scope="session")
def loader(request: pytest.FixtureRequest):
    """Write tables into one database of each server, started by its first use."""
    shared: dict[str, str] = {}

    def uri(engine: str) -> str:
        if engine not in shared:
            server = request.getfixturevalue("postgresql_server" if engine == "postgresql" else "mariadb_server")
            shared[engine] = server.create_database()
        return shared[engine]

    with ExitStack() as stack:
        yield Loader(uri, stack)


@pytest.mark.parametrize("part", range(PARTS))
def test_random_pairs_get_the_oracles_answer(part, loader, tmp_path, record_property):
    """No type, engine, rule or damage makes the product say something else than the contract's plain reading."""
    engines = engines_at_hand()
    wrong: list[str] = []
    kinds: Counter[str] = Counter()
    seeds = range(SEED + part, SEED + EXAMPLES, PARTS)
    print(f"differential: {len(seeds)} pairs, part {part} of {PARTS}, DELTA_SEED={SEED} DELTA_EXAMPLES={EXAMPLES}")
    failed = 0
    for seed in seeds:
        case = draw_case(seed, engines)
        folder = tmp_path / str(seed)
        kinds[" / ".join(case.engines)] += 1
        try:
            found = check(case, loader, folder)
        except Exception:  # noqa: BLE001 - a crash of the product is a wrong answer of this seed, and the others still count
            types = {c.name: (c.source.native, c.target.native) for c in case.columns}
            found = [
                f"DELTA_SEED={seed} DELTA_EXAMPLES=1 crashed: {case.engines} {types}",
                traceback.format_exc()[-1500:],
            ]
        shutil.rmtree(folder, ignore_errors=True)
        wrong += found
        failed += bool(found)
        if failed >= WRONG_MAX:
            break
    record_property("differential", f"{len(seeds)} pairs from {SEED}")
    assert not wrong, f"{failed} of {len(seeds)} pairs wrong, seed {SEED}:\n" + "\n".join(wrong)
