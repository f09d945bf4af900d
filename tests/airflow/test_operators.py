"""Operators one by one, with a context of our own: what they return, refuse, and let Airflow retry."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from airflow_runs import context_of
from signers import fresh_signer

from airflow_delta_provider.adapters.open import open_side
from airflow_delta_provider.core import documents
from airflow_delta_provider.core.errors import ConnectError, MergeGapError, SpecSyntaxError, SpecValueError
from airflow_delta_provider.core.signing import envelope_signer
from airflow_delta_provider.core.signing.keys import pem_of_spki
from airflow_delta_provider.core.spec import parse_spec
from airflow_delta_provider.core.store import blobs, layout, open_store
from airflow_delta_provider.engine.run import reconcile


@pytest.fixture(scope="module")
def signer():
    return fresh_signer("ed25519")


@pytest.fixture
def manifest(world: Path, signer: Any) -> str:
    """A signed manifest in the store of ``world``: 8 of 90 keys on both sides diverge, one was dropped, one added."""
    spec = {
        "name": "orders",
        "source": {"uri": f"sqlite:///{world}/old.db", "table": "orders"},
        "target": {"uri": f"sqlite:///{world}/new.db", "table": "orders"},
        "key": ["id"],
    }
    store = open_store(str(world / "store"))
    return reconcile(parse_spec(spec), store, open_side, sign=envelope_signer(signer)).receipt.manifest


def check(manifest: str, **options: Any) -> Any:
    from airflow_delta_provider.operators.manifests import CheckManifestOperator

    return CheckManifestOperator(task_id="gate", manifest=manifest, **options)


def test_a_refusal_fails_for_good_and_an_outage_does_not():
    """Only what a second try may mend is raised as Airflow's ordinary failure."""
    from airflow_delta_provider._compat import AirflowFailException
    from airflow_delta_provider.operators.common import refusals_fail_without_retry

    with pytest.raises(AirflowFailException, match=r"\[DELTA_MERGE_GAP\] a hole\."), refusals_fail_without_retry():
        raise MergeGapError("a hole.")
    with pytest.raises(ConnectError), refusals_fail_without_retry():
        raise ConnectError("no answer.")


def test_the_parts_are_fetched_in_one_request():
    """Iterating over what mapped tasks pushed costs one request for each; a slice costs one in all."""
    from airflow_delta_provider.operators.shards import digests

    class Lazy:
        def __getitem__(self, asked: slice) -> list[str | None]:
            assert asked == slice(None)
            return ["a", None, "b"]

    assert digests(Lazy()) == ["a", "b"]
    assert digests("a") == ["a"]
    assert digests(None) == []


def test_no_gate_takes_a_part_of_a_sample_for_a_verdict(world):
    """One shard without a difference says nothing of the others, and nobody published it."""
    from airflow_delta_provider._compat import AirflowFailException
    from airflow_delta_provider.engine.sample import sample

    spec = {
        "name": "orders",
        "source": {"uri": f"sqlite:///{world}/old.db", "table": "orders"},
        "target": {"uri": f"sqlite:///{world}/new.db", "table": "orders"},
        "key": ["id"],
        "shards": {"bounds": [[number] for number in range(2, 90, 2)]},
    }
    found = sample(parse_spec(spec), open_store(str(world / "store")), open_side, count=9)
    clean = next(one for one in found.looked if not one.document["body"]["records"])
    with pytest.raises(AirflowFailException, match=rf"DELTA_INPUT_MANIFEST.* names manifest {clean.manifest}"):
        check(clean.manifest).execute(context_of("gate"))


@pytest.mark.parametrize(("most", "tasks", "planned"), [(2, None, 2), (1024, 3, 3), (2, 3, 2)])
def test_more_shards_than_airflow_maps_become_pieces_of_fewer_tasks(world, monkeypatch, most, tasks, planned):
    """Airflow's own failure says nothing of shards, and comes after the plan was stored."""
    from airflow_delta_provider.operators.shards import PlanShardsOperator

    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", str(most))
    sides = {name: {"conn_id": conn, "table": "orders"} for name, conn in (("source", "old"), ("target", "new"))}
    spec = {"name": "orders", **sides, "key": ["id"], "shards": {"bounds": [[20], [40], [60]]}}
    plan = PlanShardsOperator(task_id="plan", merge_task_id="merge", spec=spec, tasks=tasks)
    assert len(plan.execute(context_of("plan"))) == planned


def test_what_a_dag_file_writes_is_read_as_a_file_would_be():
    """Floats by their text, not by their binary value; instants in UTC; nothing that a file could not hold."""
    from airflow_delta_provider.operators.common import exact_form

    form = {"a": 0.1, "b": 1e-9, "c": Decimal("1.50"), "d": date(2026, 11, 1), "e": (1, True, None)}
    assert exact_form(form, "spec") == {
        "a": "0.1",
        "b": "0.000000001",
        "c": "1.50",
        "d": "2026-11-01",
        "e": [1, True, None],
    }
    assert exact_form(datetime(2026, 11, 1, 12, tzinfo=UTC), "spec") == "2026-11-01T12:00:00Z"
    for value in (float("nan"), b"bytes", {1, 2}):
        with pytest.raises(SpecValueError):
            exact_form({"a": value}, "spec")


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://me:geheim@host/db",
        "postgresql://:geheim@host/db",
        "postgresql://host/db?user=me&password=geheim",
        "mysql://${USER}:geheim${X}@host/db",
    ],
)
def test_a_password_in_a_specification_is_refused(uri):
    """It would be stored with the plan and shown with the rendered Dag; the refusal does not repeat it."""
    from airflow_delta_provider.operators.common import spec_of

    with pytest.raises(SpecValueError, match="holds a password in clear") as refused:
        spec_of({"name": "a", "source": {"uri": uri, "table": "t"}, "target": {"conn_id": "new", "table": "t"}})
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize(
    "uri", ["postgresql://me:${PASSWORD}@host/db", "sqlite:///a:b@c.db", "postgresql://me@host/db"]
)
def test_an_address_without_a_password_passes(uri):
    """What ${NAME} stands for is looked up by each task and stored nowhere."""
    from airflow_delta_provider.operators.common import spec_of

    spec = spec_of({"name": "a", "source": {"uri": uri, "table": "t"}, "target": {"conn_id": "new", "table": "t"}})
    assert spec.source.uri == uri


def test_a_specification_may_be_the_text_of_a_file():
    """Airflow reads and renders the file beside the Dag; we read it as the command line does."""
    from airflow_delta_provider.operators.common import spec_of

    text = "name: a\nsource: {path: a.csv}\ntarget: {path: b.csv}\nkey: [id]\nrules: {x: [{tolerance: {abs: 0.10}}]}\n"
    assert spec_of(text).rules == {"x": [{"tolerance": {"abs": "0.10"}}]}
    with pytest.raises(SpecSyntaxError):
        spec_of("a specification, they said")


def test_a_label_from_data_is_no_template():
    """Keys are data: braces in them are shown and not evaluated."""
    from jinja2 import Template

    from airflow_delta_provider.operators.common import show_shard

    context: Any = context_of("compare")
    show_shard(context, "[{{ 7 * 7 }} .. )")
    assert Template(context["map_index_template"]).render(context) == "[{{ 7 * 7 }} .. )"
    show_shard(context, "k" * 300)
    assert len(context["delta_shard"]) == 200


def test_without_thresholds_any_difference_fails(manifest):
    """The gate of a newcomer is closed."""
    from airflow_delta_provider._compat import AirflowFailException

    with pytest.raises(AirflowFailException, match="records: 10 of 91, at most 0"):
        check(manifest).execute(context_of("gate"))


def test_thresholds_fail_before_they_skip(manifest):
    """Each has its own map; the hardest that is breached decides."""
    from airflow_delta_provider._compat import AirflowFailException, AirflowSkipException

    gate = check(manifest, fail={"columns.amount": "8", "dropped": 0}, skip={"records": 0})
    with pytest.raises(AirflowFailException, match=r"dropped: 1 of 91, at most 0\.$"):
        gate.execute(context_of("gate"))
    with pytest.raises(AirflowSkipException, match="records: 10 of 91"):
        check(manifest, fail={"dropped": 1}, skip={"records": "1%"}).execute(context_of("gate"))


def test_warnings_let_the_run_go_on(manifest):
    """A warning is in the log, and the manifest goes on to the next task."""
    assert check(manifest, warn={"records": 0}).execute(context_of("gate")) == manifest


@pytest.mark.parametrize(("most", "chosen"), [(9, ["mend"]), (10, ["go_on", "tell"])], ids=["beyond", "within"])
def test_a_branch_follows_its_threshold(manifest, monkeypatch, most, chosen):
    """And what is returned is still the digest, not the names of tasks."""
    gate = check(manifest, branch={"records": most}, beyond="mend", within=["go_on", "tell"])
    followed: list[Any] = []
    monkeypatch.setattr(type(gate), "do_branch", lambda self, context, branches: followed.extend(branches))
    assert gate.execute(context_of("gate")) == manifest
    assert followed == chosen


def test_a_threshold_for_an_unknown_column_fails_for_good(manifest):
    """A gate on a column that was never compared would be open for ever."""
    from airflow_delta_provider._compat import AirflowFailException

    with pytest.raises(AirflowFailException, match="DELTA_SPEC_COLUMN"):
        check(manifest, warn={"columns.amuont": 0}).execute(context_of("gate"))


def verify(manifest: str, **options: Any) -> str:
    from airflow_delta_provider.operators.manifests import VerifyManifestOperator

    return VerifyManifestOperator(task_id="verify", manifest=manifest, **options).execute(context_of("verify"))


def test_a_manifest_is_verified_under_its_key(manifest, signer, world):
    """With a public key at hand the signature counts; without one, everything else does."""
    key = world / "key.pem"
    key.write_text(pem_of_spki(signer.spki))
    assert verify(manifest) == manifest
    assert verify(manifest, trust=str(key), require_signature=True) == manifest


def test_a_manifest_of_a_stranger_is_not_verified(manifest, world):
    """Signed, but by nobody whom we trust."""
    from airflow_delta_provider._compat import AirflowFailException

    key = world / "other.pem"
    key.write_text(pem_of_spki(fresh_signer("ecdsa-p256-sha256").spki))
    with pytest.raises(AirflowFailException, match="is untrusted"):
        verify(manifest, trust=str(key))
    assert verify(manifest, trust=str(key), require_signature=False) == manifest
    with pytest.raises(AirflowFailException, match="neither the task nor the store names a trust"):
        verify(manifest, require_signature=True)


def test_a_damaged_manifest_fails_with_its_codes(manifest, world):
    """The finding names the code; what is in the record stays out of the log."""
    from airflow_delta_provider._compat import AirflowFailException

    store = open_store(str(world / "store"))
    body = documents.parse_manifest(blobs.get_blob(store, manifest))["body"]["sha256"]
    path = world / "store" / layout.blob_path(body)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b"secret-500", b"secret-501"))
    path.chmod(0o444)
    with pytest.raises(AirflowFailException, match="DELTA_BODY_DIGEST") as failed:
        verify(manifest)
    assert "secret" not in str(failed.value)


@pytest.mark.usefixtures("world")
def test_an_unknown_manifest_fails_for_good():
    """No digest, no verdict."""
    from airflow_delta_provider._compat import AirflowFailException

    with pytest.raises(AirflowFailException, match="DELTA_INPUT_DIGEST"):
        verify("latest")
