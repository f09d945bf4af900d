"""Manifests: built from a body's facts, and merged to the same bytes under any plan."""

import hashlib
import io
import itertools
import json
from pathlib import Path

import pytest

from airflow_delta_provider.core import body, documents, jsonc
from airflow_delta_provider.core.errors import (
    BodyDigestError,
    CountError,
    DenominatorError,
    MergeContextError,
    MergeGapError,
    MergeOverlapError,
    RangeError,
    SignSizeError,
    SummaryError,
    UnsortedStreamError,
)
from airflow_delta_provider.core.manifest import Context, MergeInput, build_manifest, merge_manifests

EXAMPLE = Path(__file__).resolve().parents[1] / "vectors" / "example"


def sha(data):
    return hashlib.sha256(data).hexdigest()


def shard(number):
    """Return one shard of the worked example."""
    name = f"shard{number}"
    data = (EXAMPLE / f"{name}.body.jsonl").read_bytes()
    summary = (EXAMPLE / f"{name}.summary.json").read_bytes()
    return MergeInput((EXAMPLE / f"{name}.manifest.json").read_bytes(), summary, lambda: io.BytesIO(data))


def altered(one, change):
    """Return a shard whose manifest was changed by a function."""
    document = json.loads(one.manifest)
    change(document)
    return MergeInput(jsonc.dumps(document), one.summary, one.open_body)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_three_shards_in_any_order_give_the_unsharded_bytes(order):
    """The plan is no part of the identity."""
    out = io.BytesIO()
    merged = merge_manifests([shard(number) for number in order], out)
    assert merged.manifest == (EXAMPLE / "manifest.json").read_bytes()
    assert sha(merged.manifest) == "8ee20d554454d865b1186ab0bfabfee6f7c849136273917ec658aa88e0f3becc"
    assert merged.summary == (EXAMPLE / "summary.json").read_bytes()
    assert out.getvalue() == (EXAMPLE / "body.jsonl").read_bytes()
    assert merged.facts.page_index == (EXAMPLE / "body.idx").read_bytes()


@pytest.mark.parametrize("first", [(0, 1), (1, 2)], ids=str)
def test_a_merge_of_merges_is_the_merge(first):
    """Merge in a tree, merge in a row: the same bytes."""
    out = io.BytesIO()
    some = merge_manifests([shard(number) for number in first], out)
    rest = next(number for number in range(3) if number not in first)
    whole = merge_manifests(
        [MergeInput(some.manifest, some.summary, lambda: io.BytesIO(out.getvalue())), shard(rest)], io.BytesIO()
    )
    assert whole.manifest == (EXAMPLE / "manifest.json").read_bytes()


def test_one_input_merges_to_itself():
    """A plan of one shard needs no other path."""
    assert merge_manifests([shard(1)], io.BytesIO()).manifest == shard(1).manifest


def test_a_range_that_nobody_compared_is_refused():
    """A hole would be reported as equal."""
    with pytest.raises(MergeGapError, match=r"\[DELTA_MERGE_GAP\] No input covers \[20212a7844450001, 202164\)"):
        merge_manifests([shard(2), shard(0)], io.BytesIO())


def test_a_range_that_was_compared_twice_is_refused():
    """Its rows would be counted twice."""
    with pytest.raises(MergeOverlapError, match=r"\[DELTA_MERGE_OVERLAP\]"):
        merge_manifests([shard(1), shard(1), shard(0), shard(2)], io.BytesIO())
    whole = MergeInput((EXAMPLE / "manifest.json").read_bytes(), (EXAMPLE / "summary.json").read_bytes(), io.BytesIO)
    with pytest.raises(MergeOverlapError):
        merge_manifests([whole, shard(2)], io.BytesIO())


@pytest.mark.parametrize("member", ["contract", "schema", "structure", "pair", "key"])
def test_inputs_of_another_comparison_are_refused(member):
    """Two verdicts under two contracts are no verdict."""

    def change(document):
        if member == "pair":
            document["pair"]["target"] = "other"
        elif member == "key":
            document["key"]["columns"] = ["id", "land"]
        else:
            document[member]["sha256"] = "00" * 32

    with pytest.raises(MergeContextError, match=rf"\[DELTA_MERGE_CONTEXT\] {member} differs"):
        merge_manifests([shard(0), altered(shard(1), change), shard(2)], io.BytesIO())
    with pytest.raises(MergeContextError):
        merge_manifests([], io.BytesIO())


def test_a_sweep_does_not_merge_with_a_comparison():
    """Nor with a sweep after another generation."""
    folder = EXAMPLE / "sweep"
    summary = (folder / "summary.json").read_bytes()
    shards = []
    for number in (0, 1):
        data = (folder / f"sweep1.shard{number}.body.jsonl").read_bytes()
        manifest = (folder / f"sweep1.shard{number}.manifest.json").read_bytes()
        shards.append(MergeInput(manifest, summary, lambda data=data: io.BytesIO(data)))
    merged = merge_manifests(shards, io.BytesIO())
    assert merged.manifest == (EXAMPLE / "sweep" / "sweep1.manifest.json").read_bytes()
    other = altered(shards[1], lambda document: document["sweep"].update(predecessor="11" * 32))
    with pytest.raises(MergeContextError, match="predecessor"):
        merge_manifests([shards[0], other], io.BytesIO())
    plain = altered(shards[1], lambda document: document.pop("sweep"))
    with pytest.raises(MergeContextError, match="sweep"):
        merge_manifests([shards[0], plain], io.BytesIO())


def test_an_input_whose_sums_do_not_hold_is_refused():
    """Two wrong shards could make one right total."""
    with pytest.raises(DenominatorError, match=r"\[DELTA_DENOMINATOR\]"):
        merge_manifests([altered(shard(1), lambda d: d["population"].update(unchanged=595))], io.BytesIO())


def test_a_body_that_was_altered_is_refused():
    """Its digest is the only thing that binds it to the manifest."""
    one = shard(1)
    data = one.open_body().read().replace(b"12.51", b"12.52")
    with pytest.raises(BodyDigestError, match=r"\[DELTA_BODY_DIGEST\]"):
        merge_manifests([MergeInput(one.manifest, one.summary, lambda: io.BytesIO(data))], io.BytesIO())
    with pytest.raises(BodyDigestError):
        merge_manifests([MergeInput(one.manifest, one.summary, io.BytesIO)], io.BytesIO())


def test_a_body_that_leaves_its_range_is_refused():
    """Even where its digest is right."""
    narrow = altered(shard(0), lambda document: document["key_range"].update(upper="20212a"))
    with pytest.raises(RangeError, match=r"\[DELTA_RANGE\]"):
        merge_manifests([narrow], io.BytesIO())


def test_a_body_out_of_order_is_refused():
    """Even where its digest is right."""
    one = shard(0)
    lines = one.open_body().read().splitlines(keepends=True)
    data = b"".join(reversed(lines))
    swapped = altered(one, lambda document: document["body"].update(sha256=sha(data)))
    with pytest.raises(UnsortedStreamError, match=r"\[DELTA_INPUT_ORDER\]"):
        merge_manifests([MergeInput(swapped.manifest, one.summary, lambda: io.BytesIO(data))], io.BytesIO())


def test_a_summary_that_was_altered_is_refused():
    """What rules made equal must add up as well."""
    one = shard(1)
    with pytest.raises(SummaryError, match=r"\[DELTA_SUMMARY\]"):
        merge_manifests([MergeInput(one.manifest, shard(0).summary, one.open_body)], io.BytesIO())


def test_categories_that_the_body_does_not_have_are_refused():
    """Sums that hold are not enough: the records must be there."""

    def change(document):
        document["categories"]["added"]["records"] = 2
        document["categories"]["value_diverged"]["records"] = 0
        document["population"]["target"]["rows"] += 1
        document["population"]["source"]["rows"] -= 1

    with pytest.raises(CountError, match=r"\[DELTA_COUNT\]"):
        merge_manifests([altered(shard(1), change)], io.BytesIO())


def context(**changes):
    document = json.loads((EXAMPLE / "manifest.json").read_text())
    return Context(
        **{
            "pair": document["pair"],
            "key_columns": document["key"]["columns"],
            "key_types": document["key"]["types"],
            "contract": (document["contract"]["sha256"], document["contract"]["version"]),
            "schema": (document["schema"]["sha256"], document["schema"]["version"]),
            "structure": (document["structure"]["sha256"], document["structure"]["findings"]),
            **changes,
        }
    )


def facts():
    writer = body.BodyWriter(io.BytesIO())
    writer.write_lines((EXAMPLE / "body.jsonl").read_bytes().splitlines())
    return writer.close()


def test_the_worked_manifest_is_built_byte_for_byte():
    """1,283 bytes, one id."""
    document = json.loads((EXAMPLE / "manifest.json").read_text())
    built = build_manifest(context(), (None, None), facts(), document["population"], document["summary"]["sha256"])
    assert built == (EXAMPLE / "manifest.json").read_bytes()
    assert documents.parse_manifest(built)["body"]["records"] == 4


def test_a_writer_refuses_sums_that_do_not_hold():
    """Nothing is published for a run that lost a row."""
    population = json.loads((EXAMPLE / "manifest.json").read_text())["population"]
    population["target"]["rows"] += 1
    with pytest.raises(DenominatorError):
        build_manifest(context(), (None, None), facts(), population, "00" * 32)


def test_a_writer_refuses_a_label_that_is_too_long():
    """Signed or not, so that signing later cannot fail."""
    document = json.loads((EXAMPLE / "manifest.json").read_text())
    pair = {**document["pair"], "source": "s" * 256}
    with pytest.raises(SignSizeError, match=r"\[DELTA_SIGN_SIZE\] pair.source"):
        build_manifest(context(pair=pair), (None, None), facts(), document["population"], "00" * 32)
