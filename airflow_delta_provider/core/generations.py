"""Generation headers: built from a sweep, checked against their manifest and predecessor, merged (docs/format.md, S11)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_delta_provider.core.bulk_sweep import concatenate
from airflow_delta_provider.core.documents import Document, build_generation, parse_generation, range_bytes
from airflow_delta_provider.core.documents.generation import DISPOSITIONS, SWEEP_COUNTS
from airflow_delta_provider.core.errors import (
    CoverageMismatchError,
    GenerationChainError,
    GenerationContextError,
    GenerationLostError,
    MergeContextError,
)
from airflow_delta_provider.core.generation import Tally
from airflow_delta_provider.core.ids import sha256_hex
from airflow_delta_provider.core.manifest import KeyBounds, check_tiling
from airflow_delta_provider.core.packs import PackRow, index_bytes, read_pack_index

SAME_IN_CHAIN: Final = ("contract", "hmac_key", "key", "pair", "schema")
SAME_IN_ALL: Final = (*SAME_IN_CHAIN, "generation", "predecessor")
_FROM_MANIFEST: Final = ("contract", "key", "key_range", "pair", "schema")


def generation_header(
    manifest: Document,
    manifest_id: str,
    body: dict[str, Any],
    tally: Tally,
    number: int,
    hmac_key: str | None,
) -> bytes:
    """Return the header of a generation, from the sweep's manifest, the block over its entries and its counts.

    Raises: GenerationContractError, DenominatorError, CoverageMismatchError where the result would not be valid.
    """
    members = {member: manifest[member] for member in _FROM_MANIFEST}
    data = build_generation(
        {
            **members,
            "body": body,
            "dispositions": tally.dispositions,
            "generation": number,
            "hmac_key": hmac_key,
            "manifest": manifest_id,
            "predecessor": manifest["sweep"]["predecessor"],
            "sweep": tally.counts,
        }
    )
    check_coverage(parse_generation(data), manifest)
    return data


def check_coverage(generation: Document, manifest: Document) -> None:
    """Check that a generation and its manifest count the same and speak of the same.

    Raises: CoverageMismatchError (DELTA_COVERAGE_MISMATCH).
    """
    if "sweep" not in manifest:
        raise CoverageMismatchError("The manifest is not of a sweep.", where="sweep")
    for member in _FROM_MANIFEST:
        if generation[member] != manifest[member]:
            raise CoverageMismatchError(f"{member} is another than in the manifest.", where=member)
    if generation["predecessor"] != manifest["sweep"]["predecessor"]:
        raise CoverageMismatchError("predecessor is another than in the manifest.", where="predecessor")
    sweep, target = generation["sweep"], manifest["population"]["target"]
    stated = {
        "new": manifest["categories"]["added"]["records"],
        "changed": manifest["categories"]["value_diverged"]["records"],
        "absent": manifest["categories"]["dropped"]["records"],
        "unchanged": manifest["population"]["unchanged"],
        "read": target["rows"],
        "skipped": target["skipped"],
        "null_key": target["null_key"],
        "duplicate_key": target["duplicate_key"],
        "failed": manifest["sweep"]["failed"],
    }
    for name, count in stated.items():
        if sweep[name] != count:
            sentence = f"{name} is {sweep[name]} in the generation and {count} in the manifest."
            raise CoverageMismatchError(sentence, where=f"sweep.{name}")


def check_predecessor(generation: Document, predecessor: Document, predecessor_id: str) -> None:
    """Check that a generation may follow from another one.

    Raises: GenerationContextError (DELTA_GENERATION_CONTEXT) for another contract, key, pair, schema or HMAC key;
    GenerationChainError (DELTA_GENERATION_CHAIN) where it is not the one named, or not the one just before.
    """
    if generation["predecessor"] != predecessor_id:
        raise GenerationChainError("The generation names another predecessor.", where="predecessor")
    if generation["generation"] != predecessor["generation"] + 1:
        raise GenerationChainError(
            f"Generation {generation['generation']} does not follow {predecessor['generation']}.", where="generation"
        )
    for member in SAME_IN_CHAIN:
        if generation[member] != predecessor[member]:
            raise GenerationContextError(f"{member} is another than in the predecessor.", where=member)


def check_range_covers(key_range: KeyBounds, predecessor: Document) -> None:
    """Check that a sweep of this range reaches every key of its predecessor, before a row is read.

    Raises: GenerationLostError (DELTA_GENERATION_LOST): a key outside would have no entry any more.
    """
    (lower, upper), (old_lower, old_upper) = key_range, range_bytes(predecessor["key_range"])
    below = lower is not None and (old_lower is None or old_lower < lower)
    above = upper is not None and (old_upper is None or upper < old_upper)
    if below or above:
        raise GenerationLostError(
            "The key range of the sweep is narrower than that of its predecessor.", where="key_range"
        )


@dataclass(frozen=True, slots=True)
class GenerationInput:
    """One sub-generation: header and index bytes, and a way to read its packs by digest."""

    header: bytes
    index: bytes
    read_pack: Callable[[str], bytes]


@dataclass(frozen=True, slots=True)
class MergedGeneration:
    """What a merge of sub-generations gives: the header, its digest, the index rows and the index."""

    header: bytes
    rows: list[PackRow]

    @property
    def digest_hex(self) -> str:
        """The SHA-256 of the header."""
        return sha256_hex(self.header)

    @property
    def index(self) -> bytes:
        """The merged pack index."""
        return index_bytes(self.rows)


def merge_generations(inputs: Sequence[GenerationInput], manifest: Document, manifest_id: str) -> MergedGeneration:
    """Merge sub-generations, in any order; ``manifest`` is the merge of their sub-manifests.

    Raises: MergeContextError, MergeGapError, MergeOverlapError, PackIndexError, PackDigestError, DenominatorError,
    CoverageMismatchError.
    """
    parsed = [(parse_generation(one.header), one) for one in inputs]
    parsed.sort(key=lambda pair: range_bytes(pair[0]["key_range"])[0] or b"")
    documents = [document for document, _ in parsed]
    if not documents:
        raise MergeContextError("There is nothing to merge.")
    for document in documents[1:]:
        for member in SAME_IN_ALL:
            if document[member] != documents[0][member]:
                raise MergeContextError(f"{member} differs between the inputs.", where=member)
    lower, upper = check_tiling([range_bytes(document["key_range"]) for document in documents])
    rows, body = concatenate(
        [(read_pack_index(one.index, document["body"]), one.read_pack) for document, one in parsed]
    )
    header = build_generation(
        {
            **{member: documents[0][member] for member in SAME_IN_ALL},
            "body": body,
            "dispositions": _added(documents, "dispositions", DISPOSITIONS),
            "key_range": {
                "lower": None if lower is None else lower.hex(),
                "upper": None if upper is None else upper.hex(),
            },
            "manifest": manifest_id,
            "sweep": _added(documents, "sweep", SWEEP_COUNTS),
        }
    )
    check_coverage(parse_generation(header), manifest)
    return MergedGeneration(header, rows)


def _added(documents: Sequence[Document], member: str, names: Sequence[str]) -> dict[str, int]:
    return {name: sum(document[member][name] for document in documents) for name in names}
