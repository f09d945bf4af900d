"""What a patch keeps of the rows around, and what people and pages see of a ledger."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import patching
import pytest
from patching import Bench

from airflow_delta_provider.cli import main
from airflow_delta_provider.core import jsonc, log
from airflow_delta_provider.core.errors import CheckpointMismatchError, HmacKeyError, InputPolicyError
from airflow_delta_provider.core.patch_seal import seal_key_of
from airflow_delta_provider.core.store import blobs, open_store
from airflow_delta_provider.core.verify_store import verify_published
from airflow_delta_provider.engine.patching import PatchOptions, apply_patch
from airflow_delta_provider.engine.patching.surroundings import read_surroundings
from airflow_delta_provider.report.material import load_material
from airflow_delta_provider.web.left_rows import listed_html
from airflow_delta_provider.web.patches import patches_of

PAIR = log.pair_id_of("bench", "bench:source", "bench:target")
COLUMNS = "id INTEGER PRIMARY KEY, v VARCHAR(40), card VARCHAR(40), note VARCHAR(40)"
LEFT_OUT = {"exclude": ["note"]}


@pytest.fixture(params=patching.ENGINES)
def bench(request, tmp_path) -> Bench:
    """Rows 1 to 9 on both sides, of which 3 and 6 differ; ``note`` is left out."""
    return filled(request.param, request, tmp_path)


@pytest.fixture
def lite(request, tmp_path) -> Bench:
    """The same in SQLite alone, ``card`` being sensitive."""
    made = filled("sqlite", request, tmp_path)
    made.members = {**made.members, "sensitive": ["card"]}
    return made


def filled(engine: str, request: Any, folder: Path) -> Bench:
    if engine in ("sqlite", "duckdb"):
        uri = patching.file_uri(engine, folder)
    else:
        uri = request.getfixturevalue("postgresql_database" if engine == "postgresql" else "mariadb_database")
    made = Bench(engine, uri, columns=LEFT_OUT)
    made.tables(COLUMNS)
    made.fill("source", [(at, f"s{at}" if at in (3, 6) else "same", f"card-{at}", "") for at in range(1, 10)])
    made.fill("target", [(at, f"t{at}" if at in (3, 6) else "same", f"card-{at}", f"n{at}") for at in range(1, 10)])
    return made


def around(bench: Bench, patch: str, folder: Path, seal_key: bytes | None = None) -> list[Any]:
    """Return key and note of each row around that was kept."""
    lines = [line for part in read_surroundings(bench.store, PAIR, patch, seal_key, folder / "around") for line in part]
    rows = [{name: value for name, _, value in jsonc.loads(line)["raw"]} for line in lines]
    return [(row["id"], row["v"], row["note"]) for row in rows]


def test_the_rows_between_those_that_are_touched_are_kept_as_they_were(bench, tmp_path):
    """From the first to the last touched key, columns that were left out included, before the first write."""
    outcome = bench.apply(bench.compare(), checkpoint_scope="ranges")
    assert around(bench, outcome.patch_id, tmp_path) == [
        ("3", "t3", "n3"),
        ("4", "same", "n4"),
        ("5", "same", "n5"),
        ("6", "t6", "n6"),
    ]
    back = bench.rollback(outcome.patch_id, checkpoint_scope="ranges")
    assert [row[1] for row in around(bench, back.patch_id, tmp_path)] == ["s3", "same", "same", "s6"]
    assert outcome.surroundings != back.surroundings


def test_the_touched_rows_alone_are_kept_unless_asked(lite, tmp_path):
    """The default costs no read of other rows."""
    outcome = lite.apply(lite.compare())
    assert outcome.surroundings is None
    with pytest.raises(CheckpointMismatchError, match="kept the touched rows alone"):
        around(lite, outcome.patch_id, tmp_path)


def test_keys_that_a_rule_changes_are_kept_by_the_key_after_the_rule(tmp_path):
    """Such a key cannot be looked for in a range of the engine's own, so that the whole table is read."""
    bench = Bench(
        "sqlite", patching.file_uri("sqlite", tmp_path), key=["k"], rules={"k": [{"normalize": ["casefold"]}]}
    )
    bench.tables("k TEXT, v INTEGER")
    bench.fill("source", [("a", 1), ("b", 2), ("c", 3), ("d", 4)])
    bench.fill("target", [("A", 1), ("B", 0), ("C", 3), ("D", 0)])
    patch = bench.apply(bench.compare(), checkpoint_scope="ranges").patch_id
    lines = [line for part in read_surroundings(bench.store, PAIR, patch, None, tmp_path / "around") for line in part]
    assert [jsonc.loads(line)["raw"][0][2] for line in lines] == ["B", "C", "D"]


def test_rows_around_with_a_sensitive_column_are_stored_encrypted(lite, tmp_path):
    """They lie under the same protection as the checkpoint."""
    outcome = lite.apply(lite.compare(), checkpoint_scope="ranges")
    stored = b"".join(blobs.get_blob(lite.store, path.rsplit("/", 1)[1]) for path in lite.store.list("blobs"))
    assert b"card-" not in stored and b"n4" not in stored
    with pytest.raises(CheckpointMismatchError, match="no key was given"):
        around(lite, outcome.patch_id, tmp_path)
    assert len(around(lite, outcome.patch_id, tmp_path, seal_key_of(patching.KEY.secret))) == 4


def test_a_stopped_patch_keeps_what_it_kept(lite, tmp_path):
    """Killed before its first write it takes the rows around anew; begun without them it goes on without them."""
    manifest = lite.compare()

    def stop(name: str) -> None:
        if name == "begin":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lite.apply(manifest, step=stop, checkpoint_scope="ranges")
    lite.sql("UPDATE t_target SET note = 'later' WHERE id = 5")
    outcome = lite.apply(manifest, checkpoint_scope="ranges")
    assert outcome.proved
    assert ("5", "same", "n5") in around(lite, outcome.patch_id, tmp_path, seal_key_of(patching.KEY.secret))
    lite.rollback(outcome.patch_id)

    lite.sql("UPDATE t_source SET v = 'more' WHERE id = 9")
    manifest = lite.compare()
    with pytest.raises(KeyboardInterrupt):
        lite.apply(manifest, step=stop)
    with pytest.raises(CheckpointMismatchError, match="begun with checkpoint_scope touched"):
        lite.apply(manifest, checkpoint_scope="ranges")
    assert lite.apply(manifest).proved


def conflicting(bench: Bench) -> str:
    """Compare, then write to row 3 as somebody else; return the manifest."""
    bench.sql("UPDATE t_source SET card = 'card-new' WHERE id = 3", "UPDATE t_source SET card = 'card-6b' WHERE id = 6")
    manifest = bench.compare()
    bench.sql("UPDATE t_target SET v = 'human', card = 'card-theirs' WHERE id = 3")
    return manifest


def test_the_canonical_ledger_is_the_same_in_every_detail(request, tmp_path):
    """What is shown is a view: the bytes that are hashed do not depend on it."""
    digests = set()
    for detail in ("counts", "keys", "digests", "values"):
        folder = tmp_path / detail
        folder.mkdir()
        made = filled("sqlite", request, folder)
        outcome = made.apply(conflicting(made), conflicts="skip", ledger_detail=detail)
        digests.add((outcome.ledger, outcome.checkpoint))
        assert outcome.outcomes["conflict"] == 1 and outcome.left_rows == 1
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("detail", "shown"),
    [
        ("counts", None),
        ("keys", {"id", "key", "reason"}),
        ("digests", {"id", "key", "reason", "before", "columns", "wanted"}),
        ("values", {"id", "key", "reason", "before", "columns", "wanted"}),
    ],
)
def test_a_ledger_is_shown_in_the_detail_that_was_asked_for(lite, detail, shown):
    """To who called, and on the page; a sensitive value never, in no detail, after patch or rollback, planned or done."""
    manifest = conflicting(lite)
    plan = lite.plan(manifest, ledger_detail=detail)
    outcome = lite.apply(manifest, conflicts="skip", ledger_detail=detail)
    lite.sql("UPDATE t_target SET v = 'again', card = 'card-again' WHERE id = 6")
    back = lite.rollback(outcome.patch_id, conflicts="skip", ledger_detail=detail)
    document = outcome.document()
    rows = [*plan.excluded, *document["conflicts"], *document["left"], *back.document()["conflicts"]]
    assert len(rows) == (0 if shown is None else 4)
    assert all(row.keys() == shown for row in rows)
    material = load_material(lite.store, manifest)
    listed = [(patch, patch.listed) for patch in patches_of(material) if patch.listed is not None]
    page = "".join(part for one in listed for part in listed_html(*one))
    documents = json.dumps([plan.excluded, document, back.document(), [one.document() for one in patches_of(material)]])
    assert "card-" not in documents and "card-" not in page
    assert ("human" in documents, "human" in page) == ((detail == "values"),) * 2
    assert ("Records that patch" in page) == (detail != "counts")
    if detail == "values":
        (conflict,) = document["conflicts"]
        assert conflict["columns"] == ["v", "card"]
        assert (conflict["before"][0], conflict["wanted"][0]) == ("human", "s3")
        assert conflict["before"][1].keys() == conflict["wanted"][1].keys() == {"hmac", "key"}
        (undone,) = back.conflicts
        assert (undone["before"][0], undone["wanted"][0]) == ("again", "t6")
    if detail == "digests":
        assert all(
            value.keys() == {"hmac", "key"} for row in rows for part in ("before", "wanted") for value in row[part]
        )
    assert verify_published(lite.store, manifest)[0].findings == []


def test_a_finished_patch_shows_again_what_it_left(lite):
    """A second call finds the ledger and lists the same records."""
    manifest = conflicting(lite)
    first = lite.apply(manifest, conflicts="skip", ledger_detail="values")
    second = lite.apply(manifest, conflicts="skip", ledger_detail="values")
    assert second.document()["conflicts"] == first.document()["conflicts"]
    kinds = [entry.kind for entry in log.read_log(lite.store, PAIR)]
    assert kinds.count("sidecar") == 3  # of the comparison, of the ledger, and of the proof


def test_digests_without_a_key_are_refused_before_anything_is_written(request, tmp_path):
    """A plain digest of a short value is guessed."""
    made = filled("sqlite", request, tmp_path)
    manifest = made.compare()
    with pytest.raises(HmacKeyError, match="ledger_detail"):
        apply_patch(made.spec, made.store, manifest, PatchOptions(ledger_detail="digests"))
    assert made.rows()[2][1] == "t3"


@pytest.mark.parametrize("named", [{"checkpoint_scope": "all"}, {"ledger_detail": "rows"}])
def test_a_scope_or_detail_that_does_not_exist_is_refused(named):
    """A misspelled one must not mean the default."""
    with pytest.raises(InputPolicyError, match=next(iter(named))):
        PatchOptions(**named)


def test_the_command_line_takes_both(request, tmp_path, capsys):
    """With and without --json, for a patch and its rollback."""
    made = filled("sqlite", request, tmp_path)
    made.store = open_store(str(tmp_path / "store"))
    manifest = conflicting(made)
    spec = {"name": "bench", "schema_version": "1", "key": ["id"], "columns": LEFT_OUT}
    for name in ("source", "target"):
        spec[name] = {"uri": made.uri, "table": f"t_{name}", "label": f"bench:{name}"}
    (tmp_path / "spec.yaml").write_text(json.dumps(spec))
    asked = ["--spec", str(tmp_path / "spec.yaml"), "--store", str(tmp_path / "store"), "--conflicts", "skip"]
    asked += ["--checkpoint-scope", "ranges", "--ledger-detail"]
    assert main(["patch", manifest, *asked, "values", "--dry-run"]) == 1
    assert 'v: "human" -> "s3"' in capsys.readouterr().out
    assert main(["patch", manifest, *asked, "counts", "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["conflicts"], answer["left"], answer["left_rows"]) == ([], [], 1)
    assert main(["rollback", answer["patch"], *asked, "values"]) == 1
    assert "around      " in capsys.readouterr().out
