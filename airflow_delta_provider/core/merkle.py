"""Merkle trees as in RFC 6962: leaf and node hashes, streaming roots, inclusion and consistency proofs (S6)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from airflow_delta_provider.core.errors import ProofError

DIGEST_BYTES = 32
EMPTY_ROOT = hashlib.sha256(b"").digest()
PROOF_NODES_MAX = 64
"""More nodes than any tree that fits 2^53 leaves needs twice over; a longer proof is not looked at."""


def leaf_hash(line: bytes) -> bytes:
    """Return the hash of a leaf: a line without its LF."""
    return hashlib.sha256(b"\x00" + line).digest()


def leaf_hashes(lines: Iterable[bytes]) -> list[bytes]:
    """Return the hashes of many leaves."""
    sha256 = hashlib.sha256
    return [sha256(b"\x00" + line).digest() for line in lines]


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def root(hashes: Sequence[bytes]) -> bytes:
    """Return the root over leaf hashes (or over the hashes of equal, full subtrees of which the last may be partial)."""
    if not hashes:
        return EMPTY_ROOT
    sha256, level = hashlib.sha256, list(hashes)
    while len(level) > 1:
        odd = [level[-1]] if len(level) % 2 else []
        level = [
            sha256(b"\x01" + left + right).digest() for left, right in zip(level[::2], level[1::2], strict=False)
        ] + odd
    return level[0]


class Accumulator:
    """The root of a growing tree in O(log n) memory.

    Shape: holds one hash for each set bit of ``size``, largest subtree first.
    """

    __slots__ = ("_peaks", "size")

    def __init__(self) -> None:
        self.size = 0
        self._peaks: list[tuple[int, bytes]] = []

    def append(self, leaf: bytes) -> None:
        """Add one leaf hash."""
        self.append_subtree(0, leaf)

    def extend(self, leaves: Sequence[bytes]) -> None:
        """Add many leaf hashes; aligned runs of them are combined level by level."""
        start, count = 0, len(leaves)
        while start < count:
            height = _aligned_height(self.size, count - start)
            self.append_subtree(height, root(leaves[start : start + (1 << height)]))
            start += 1 << height

    def append_subtree(self, height: int, digest: bytes) -> None:
        """Add the hash of a full subtree of ``2^height`` leaves.

        Raises: ProofError (DELTA_PROOF) where it does not start at a multiple of its size, or is not 32 bytes.
        """
        if self.size % (1 << height) or len(digest) != DIGEST_BYTES:
            raise ProofError(f"A subtree of height {height} cannot start at leaf {self.size}.")
        self.size += 1 << height
        while self._peaks and self._peaks[-1][0] == height:
            digest = node_hash(self._peaks.pop()[1], digest)
            height += 1
        self._peaks.append((height, digest))

    def root(self) -> bytes:
        """Return the root over everything added so far."""
        if not self._peaks:
            return EMPTY_ROOT
        digest = self._peaks[-1][1]
        for _, peak in reversed(self._peaks[:-1]):
            digest = node_hash(peak, digest)
        return digest


def aligned_heights(start: int, stop: int) -> list[int]:
    """Return the heights of the maximal aligned subtrees that cover leaves [start, stop), left to right."""
    heights = []
    while start < stop:
        height = _aligned_height(start, stop - start)
        heights.append(height)
        start += 1 << height
    return heights


def aligned_nodes(leaves: Sequence[bytes], start: int) -> list[bytes]:
    """Return the hashes of the maximal aligned subtrees that cover leaf hashes standing at ``start``."""
    nodes, at = [], 0
    for height in aligned_heights(start, start + len(leaves)):
        nodes.append(root(leaves[at : at + (1 << height)]))
        at += 1 << height
    return nodes


def _aligned_height(position: int, room: int) -> int:
    """Return log2 of the largest power of two that divides ``position`` (0: any) and fits into ``room``."""
    fits = room.bit_length() - 1
    return fits if position == 0 else min(fits, (position & -position).bit_length() - 1)


def inclusion_path(hashes: Sequence[bytes], index: int) -> list[bytes]:
    """Return the audit path of the leaf at ``index``, from the leaf upwards."""
    if not 0 <= index < len(hashes):
        raise ProofError(f"Leaf {index} is not in a tree of {len(hashes)}.")
    level, path = list(hashes), []
    while len(level) > 1:
        sibling = index ^ 1
        if sibling < len(level):
            path.append(level[sibling])
        odd = [level[-1]] if len(level) % 2 else []
        level = [node_hash(left, right) for left, right in zip(level[::2], level[1::2], strict=False)] + odd
        index //= 2
    return path


def consistency_path(hashes: Sequence[bytes], size_old: int) -> list[bytes]:
    """Return the proof that the tree over ``hashes`` extends the one over its first ``size_old`` leaves."""
    if not 0 < size_old <= len(hashes):
        raise ProofError(f"A tree of {len(hashes)} leaves extends none of {size_old}.")
    return _subproof(hashes, size_old, True)


def _subproof(hashes: Sequence[bytes], size_old: int, whole: bool) -> list[bytes]:
    size = len(hashes)
    if size_old == size:
        return [] if whole else [root(hashes)]
    split = 1 << ((size - 1).bit_length() - 1)
    if size_old <= split:
        return [*_subproof(hashes[:split], size_old, whole), root(hashes[split:])]
    return [*_subproof(hashes[split:], size_old - split, False), root(hashes[:split])]


def verify_inclusion(index: int, size: int, leaf: bytes, path: Sequence[bytes], tree_root: bytes) -> None:
    """Check that the leaf hash stands at ``index`` in the tree of ``size`` leaves with this root (RFC 9162, 2.1.3.2).

    Raises: ProofError (DELTA_PROOF), also where any hash is not 32 bytes.
    """
    _demand_digests([leaf, tree_root, *path])
    if not 0 <= index < size:
        raise ProofError(f"Leaf {index} is not in a tree of {size}.")
    if root_from_inclusion(index, size, leaf, path) != tree_root:
        raise ProofError(f"The path of leaf {index} leads to another root.")


def root_from_inclusion(index: int, size: int, leaf: bytes, path: Sequence[bytes]) -> bytes:
    """Return the root to which an audit path leads.

    Raises: ProofError (DELTA_PROOF) where the path has another length than such a tree demands.
    """
    position, last, digest = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            raise ProofError(f"The path of leaf {index} is too long.")
        if position % 2 or position == last:
            digest = node_hash(sibling, digest)
            while position % 2 == 0 and position:
                position, last = position >> 1, last >> 1
        else:
            digest = node_hash(digest, sibling)
        position, last = position >> 1, last >> 1
    if last:
        raise ProofError(f"The path of leaf {index} is too short.")
    return digest


def verify_consistency(size_old: int, size_new: int, root_old: bytes, root_new: bytes, path: Sequence[bytes]) -> None:
    """Check that the newer tree extends the older one (RFC 9162, 2.1.4.2).

    Raises: ProofError (DELTA_PROOF), also where any hash is not 32 bytes; from an empty tree there is no proof.
    """
    _demand_digests([root_old, root_new, *path])
    if not 0 < size_old <= size_new:
        raise ProofError(f"A tree of {size_new} leaves extends none of {size_old}.")
    if size_old == size_new:
        if path or root_old != root_new:
            raise ProofError("Trees of one size have different roots, or a proof that they do not need.")
        return
    nodes = [root_old, *path] if size_old & (size_old - 1) == 0 else list(path)
    if not nodes or not path:
        raise ProofError("The proof is empty.")
    position, last = size_old - 1, size_new - 1
    while position % 2:
        position, last = position >> 1, last >> 1
    old = new = nodes[0]
    for node in nodes[1:]:
        if last == 0:
            raise ProofError("The proof is too long.")
        if position % 2 or position == last:
            old, new = node_hash(node, old), node_hash(node, new)
            while position % 2 == 0 and position:
                position, last = position >> 1, last >> 1
        else:
            new = node_hash(new, node)
        position, last = position >> 1, last >> 1
    if last or old != root_old or new != root_new:
        raise ProofError("The proof leads to other roots.")


def _demand_digests(hashes: Sequence[bytes]) -> None:
    if len(hashes) > 2 * PROOF_NODES_MAX:
        raise ProofError(f"A proof of {len(hashes)} nodes fits no tree.")
    if any(len(digest) != DIGEST_BYTES for digest in hashes):
        raise ProofError("A hash in the proof is not 32 bytes.")
