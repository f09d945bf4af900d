"""The conformance runner: it passes the golden vectors, and fails where one byte of them is another."""

import json
import shutil
from pathlib import Path

import pytest

from airflow_delta_provider.core.conformance import run_folder
from airflow_delta_provider.core.errors import InputPathError

VECTORS = Path(__file__).resolve().parents[1] / "vectors"


def run(folder):
    lines = []
    return run_folder(folder, lines.append), lines


def test_every_published_vector_passes():
    """1,034 cases; only the text about them is not run."""
    (passed, failed), lines = run(VECTORS)
    assert (passed, failed) == (1034, 0)
    assert lines[-1] == "1034 passed, 0 failed"
    assert [line for line in lines if line.endswith("not run")] == ["README.md: not run"]


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The example without its list of digests, so that nothing but the format itself can tell what is wrong."""
    folder = tmp_path_factory.mktemp("vectors") / "example"
    shutil.copytree(VECTORS / "example", folder)
    (folder / "digests.json").unlink()
    return folder


MUTATIONS = {
    "schema.json": (b'"amount","decimal"', b'"amount","float64"'),
    "contract.json": (b'"0.001"', b'"0.002"'),
    "structure.json": (b"channel", b"chanmel"),
    "summary.json": (b'["amount",1,0]', b'["amount",0,0]'),
    "manifest.json": (b'"unchanged":995', b'"unchanged":994'),
    "body.jsonl": (b'"12.51"', b'"12.53"'),
    "body.idx": (b"\x00\x80", b"\x01\x80"),
    "shard0.manifest.json": (b'"rows":401', b'"rows":402'),
    "shard1.summary.json": (b'["ratio",0,2]', b'["ratio",0,3]'),
    "shard2.body.jsonl": (b'"1e+21"', b'"1e+22"'),
    "detail-digests.body.jsonl": (b'"hmac":"0', b'"hmac":"1'),
    "manifest.dsse.json": (b'"sig":"H', b'"sig":"I'),
    "ed25519.pub.pem": (b"AyEAkpwk", b"AyEBkpwk"),
    "checkpoint.json": (b'"side":"target"', b'"side":"source"'),
    "checkpoint.body.jsonl": (b'"00ff"', b'"00fe"'),
    "ledger.json": (b'"applied":4', b'"applied":3'),
    "ledger.body.jsonl": (b'"insert"', b'"update"'),
    "log-1.json": (b'"kind":"checkpoint"', b'"kind":"manifest"'),
    "anchor.txt": (b"IFOT", b"JFOT"),
    "sweep/sweep0.generation.json": (b'"new":6', b'"new":5'),
    "sweep/sweep1.manifest.json": (b'"failed":1', b'"failed":0'),
    "sweep/sweep1.body.jsonl": (b'["8","2"]', b'["8","3"]'),
    "sweep/sweep1.pack0.jsonl": (b'"version":2', b'"version":3'),
    "sweep/sweep1.merged.packs.jsonl": (b'"bytes":643', b'"bytes":644'),
    "sweep/sweep1.shard1.generation.json": (b'"hmac_key":null', b'"hmac_key":"k1"'),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_one_other_byte_in_a_file_fails(example, name):
    """Each file is bound by another one or by its own form, without a list of digests."""
    path, (old, new) = example / name, MUTATIONS[name]
    good = path.read_bytes()
    assert old in good
    path.write_bytes(good.replace(old, new, 1))
    try:
        (_, failed), lines = run(example)
    finally:
        path.write_bytes(good)
    assert failed > 0
    assert lines[-1].endswith(f" {failed} failed")


@pytest.mark.parametrize("name", ["manifest.json", "schema.json", "sweep/sweep1.generation.json", "manifest.dsse.json"])
def test_a_document_that_was_cut_fails(example, name):
    """What does not parse is not passed over."""
    path = example / name
    good = path.read_bytes()
    path.write_bytes(good[:-2])
    try:
        (_, failed), lines = run(example)
    finally:
        path.write_bytes(good)
    assert failed > 0
    assert any(line.startswith(f"FAILED {name}") for line in lines)


def test_the_numbers_printed_in_the_format_are_derived(tmp_path):
    """Patch ids, checkpoints and the review ledger of S12, for rules whose files are not in the folder."""
    for name in ("manifest", "schema", "checkpoint"):
        shutil.copy(VECTORS / "example" / f"{name}.json", tmp_path)
    for name in ("body", "checkpoint.body"):
        shutil.copy(VECTORS / "example" / f"{name}.jsonl", tmp_path)
    stated = {
        "last_writer_wins": [
            "094c6896b395c6422a13c9500d91459d582543e90a166742dfe092df2157f5af",
            "2851cc6cb8b472653aeb62fdfd9c0c4988420b7f69c0518ba89760a747243932",
            "9f95bd5b09d64cf963c2bc2c91e510fec99a403f5be75dd67e932a55c7167a09",
        ],
        "flag_for_review": [
            "ba4b4128667a89afb2c4464589afa530d5c310fd49286698655de6793195f0f1",
            "c77087ceea568fdadb63a4977fec27a1fe9c754a1473e08514226ededfde97e2",
            "4d65cac469a4d7c9cd74d74c0b98886b79bba5940fa5a0347a445a005eba2790",
        ],
    }
    manifest_id = "8ee20d554454d865b1186ab0bfabfee6f7c849136273917ec658aa88e0f3becc"
    info = {"manifest_id": manifest_id, "patch": stated}
    (tmp_path / "digests.json").write_text(json.dumps({"files": {}, "info": info}))
    _, lines = run(tmp_path)
    assert "digests.json: 2 passed" in lines


LISTS = {
    "value_vectors.json": [{"type": "decimal", "input": "1.10", "canonical": "1.10"}],
    "id_vectors.json": [{"schema_version": "1", "category": "added", "sort_key": "2020", "id": "00" * 32}],
    "order_vectors.json": {"key_types": ["int"], "shuffled": ["2020"], "sorted": ["202101"], "decoded_sorted": [["0"]]},
    "malformed_keys.json": ["2020"],
    "digest_vectors.json": {"hmac_key": "00", "hmac": [{"column": "a", "value": None, "hmac": "00"}]},
    "patch_vectors.json": [
        {
            "manifest": "00" * 32,
            "rule": "flag_for_review",
            "column": None,
            "side": "target",
            "refused": "DELTA_PATCH_RULE",
        }
    ],
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_with_a_wrong_answer_fails(tmp_path, name):
    """Files are told by the members of their entries, so a renamed file is run as well."""
    (tmp_path / f"renamed_{name}").write_text(json.dumps(LISTS[name]))
    assert run(tmp_path)[0] == (0, 1)


def test_a_float_with_a_wrong_text_fails(tmp_path):
    """And so does a line that is no vector."""
    (tmp_path / "more.csv").write_text("3dcccccd,0.1\n3dcccccd,0.10000000149011612\nnonsense\n")
    assert run(tmp_path)[0] == (1, 2)


def test_files_of_other_kinds_are_listed_and_not_run(tmp_path):
    """Nothing is passed over in silence."""
    (tmp_path / "other.json").write_text('{"a": 1}')
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    assert run(tmp_path) == ((0, 0), ["other.csv: not run", "other.json: not run", "0 passed, 0 failed"])


def test_what_is_no_folder_is_refused(tmp_path):
    """An empty result of a folder that is not there would look like success."""
    with pytest.raises(InputPathError, match=r"\[DELTA_INPUT_PATH\]"):
        run_folder(tmp_path / "nowhere")
