"""Merkle trees: published proofs, and roots that do not depend on how leaves arrive."""

import base64
import json
import os
from pathlib import Path

import pytest

from airflow_delta_provider.core import merkle
from airflow_delta_provider.core.errors import ProofError

LEAVES = [merkle.leaf_hash(bytes([number])) for number in range(70)]


def third_party(name):
    """Find published vectors: beside the repository, or where DELTA_THIRD_PARTY says."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "vectors" / "third-party"
    path = Path(os.environ.get("DELTA_THIRD_PARTY", beside)) / name
    if not path.is_file():
        pytest.skip(f"published vectors are not here: {name} (set DELTA_THIRD_PARTY)")
    return json.loads(path.read_text())


def decoded(texts):
    return [base64.b64decode(text) for text in texts or []]


def test_roots_of_the_rfc_6962_test_trees_are_the_published_ones():
    """Our tree is the tree that every certificate log uses."""
    known = third_party("rfc6962/tree_known_answers.json")
    leaves = [merkle.leaf_hash(bytes.fromhex(text)) for text in known["leaves_hex"]]
    assert [leaf.hex() for leaf in leaves] == known["leaf_hashes_hex"]
    assert [merkle.root(leaves[:size]).hex() for size in range(9)] == known["roots_hex_by_size"]


def test_published_inclusion_proofs_are_judged_as_published():
    """Good proofs pass, and 90 ways to damage one do not."""
    for case in third_party("rfc6962/merkle_proofs.json")["inclusion"]:
        arguments = (case["leafIdx"], case["treeSize"], *decoded([case["leafHash"]]), decoded(case["proof"]))
        judged = outcome(merkle.verify_inclusion, *arguments, *decoded([case["root"]]))
        assert judged is not case["wantErr"], case["file"]


def test_published_consistency_proofs_are_judged_as_published_but_for_short_hashes():
    """One published proof uses roots of 16 bytes; we demand 32."""
    differ = []
    for case in third_party("rfc6962/merkle_proofs.json")["consistency"]:
        roots = decoded([case["root1"], case["root2"]])
        judged = outcome(merkle.verify_consistency, case["size1"], case["size2"], *roots, decoded(case["proof"]))
        if judged is case["wantErr"]:
            differ.append(case["desc"])
    assert differ == ["sizes are equal (one) and proof is empty"]


def outcome(verify, *arguments):
    try:
        verify(*arguments)
    except ProofError:
        return False
    return True


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 8, 33, 70])
@pytest.mark.parametrize("step", [1, 3, 16])
def test_a_streamed_root_is_the_root(size, step):
    """Pages of any size give the same root, so the page size is no part of the format."""
    tree = merkle.Accumulator()
    for start in range(0, size, step):
        tree.extend(LEAVES[start : min(size, start + step)])
    assert tree.root() == merkle.root(LEAVES[:size])
    assert tree.size == size


def test_the_root_of_nothing_is_the_hash_of_nothing():
    """An empty category still has a root that can be checked by hand."""
    assert merkle.root([]).hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.mark.parametrize("size", [1, 2, 5, 8, 33])
def test_every_leaf_can_be_proved_and_no_other_can_take_its_place(size):
    """A proof binds the leaf, its place, and the size of the tree."""
    tree = merkle.root(LEAVES[:size])
    for index in range(size):
        path = merkle.inclusion_path(LEAVES[:size], index)
        merkle.verify_inclusion(index, size, LEAVES[index], path, tree)
        with pytest.raises(ProofError, match=r"\[DELTA_PROOF\]"):
            merkle.verify_inclusion(index, size, LEAVES[69], path, tree)
        with pytest.raises(ProofError):
            merkle.verify_inclusion(index, size, LEAVES[index], [*path, LEAVES[0]], tree)


@pytest.mark.parametrize("size", [1, 2, 5, 8, 33])
def test_every_prefix_can_be_proved_consistent(size):
    """A log that only grows can show so from any size to any later one."""
    for old in range(1, size + 1):
        path = merkle.consistency_path(LEAVES[:size], old)
        roots = merkle.root(LEAVES[:old]), merkle.root(LEAVES[:size])
        merkle.verify_consistency(old, size, *roots, path)
        if old < size:
            with pytest.raises(ProofError):
                merkle.verify_consistency(old, size, LEAVES[0] if old > 1 else LEAVES[1], roots[1], path)


def test_leaves_in_the_middle_are_covered_by_the_largest_aligned_trees():
    """Leaves 3 to 11: one at 3, four at 4, four at 8."""
    assert merkle.aligned_heights(3, 12) == [0, 2, 2]
    nodes = merkle.aligned_nodes(LEAVES[3:12], 3)
    assert nodes == [LEAVES[3], merkle.root(LEAVES[4:8]), merkle.root(LEAVES[8:12])]


def test_a_subtree_that_is_not_aligned_is_refused():
    """Otherwise a pack index could shift leaves without changing the root's inputs."""
    tree = merkle.Accumulator()
    tree.append(LEAVES[0])
    with pytest.raises(ProofError):
        tree.append_subtree(1, LEAVES[1])
    with pytest.raises(ProofError):
        tree.append_subtree(0, b"short")


def test_a_leaf_outside_the_tree_has_no_path():
    """Asking for it is a refusal, not an empty proof."""
    with pytest.raises(ProofError):
        merkle.inclusion_path(LEAVES[:4], 4)
    with pytest.raises(ProofError):
        merkle.consistency_path(LEAVES[:4], 5)
    with pytest.raises(ProofError):
        merkle.verify_inclusion(4, 4, LEAVES[0], [], LEAVES[0])
