"""Refusals of documents, digests, sums, signatures, stores, generations and bounds."""

from typing import ClassVar

from airflow_delta_provider.core.errors.base import DeltaError


class ManifestDigestError(DeltaError):
    """A manifest does not hash to the digest under which it was asked for."""

    code: ClassVar[str] = "DELTA_MANIFEST_DIGEST"
    remedy: ClassVar[str] = "Restore the manifest from a copy."


class ManifestContractError(DeltaError):
    """A manifest has other members or values than the format allows."""

    code: ClassVar[str] = "DELTA_MANIFEST_CONTRACT"
    remedy: ClassVar[str] = "It was altered or written by another tool: restore it."


class SchemaError(DeltaError):
    """A schema document is missing, altered or does not match its manifest."""

    code: ClassVar[str] = "DELTA_SCHEMA"
    remedy: ClassVar[str] = "Restore it from a copy."


class ContractError(DeltaError):
    """A contract document is missing, altered, or holds a rule that cannot be used here."""

    code: ClassVar[str] = "DELTA_CONTRACT"
    remedy: ClassVar[str] = "Restore it, or take the rule out of the specification."


class SummaryError(DeltaError):
    """A summary document is missing, altered or disagrees with the body."""

    code: ClassVar[str] = "DELTA_SUMMARY"
    remedy: ClassVar[str] = "Restore it from a copy."


class StructureError(DeltaError):
    """A structure document is missing, altered or disagrees with the manifest."""

    code: ClassVar[str] = "DELTA_STRUCTURE"
    remedy: ClassVar[str] = "Restore it from a copy."


class BodyDigestError(DeltaError):
    """A body does not hash to what its manifest says."""

    code: ClassVar[str] = "DELTA_BODY_DIGEST"
    remedy: ClassVar[str] = "Restore the body from a copy; verify names the page and record."


class BodyFramingError(DeltaError):
    """A body is not lines that each end in one LF."""

    code: ClassVar[str] = "DELTA_BODY_FRAMING"
    remedy: ClassVar[str] = "Restore the body from a copy."


class CountError(DeltaError):
    """A number of records or bytes is not what was stated."""

    code: ClassVar[str] = "DELTA_COUNT"
    remedy: ClassVar[str] = "Restore the artifact from a copy."


class MerkleRootError(DeltaError):
    """The Merkle root over the records is not the stated one."""

    code: ClassVar[str] = "DELTA_MERKLE_ROOT"
    remedy: ClassVar[str] = "Restore the body from a copy."


class CategoryRootError(DeltaError):
    """The Merkle root of one category is not the stated one."""

    code: ClassVar[str] = "DELTA_CATEGORY_ROOT"
    remedy: ClassVar[str] = "Restore the body from a copy."


class PageDigestError(DeltaError):
    """A page of the body does not hash to what the page index says."""

    code: ClassVar[str] = "DELTA_PAGE_DIGEST"
    remedy: ClassVar[str] = "Restore that page, or rebuild the index from a verified body."


class ProofError(DeltaError):
    """A proof does not lead from the record to the root."""

    code: ClassVar[str] = "DELTA_PROOF"
    remedy: ClassVar[str] = "Ask for the proof again; this one proves nothing."


class DenominatorError(DeltaError):
    """The rows read are not the sum of what became of them."""

    code: ClassVar[str] = "DELTA_DENOMINATOR"
    remedy: ClassVar[str] = "Nothing was published. Run again on a quiet table; if it stays, report it."


class CoverageMismatchError(DeltaError):
    """A generation and its manifest count differently."""

    code: ClassVar[str] = "DELTA_COVERAGE_MISMATCH"
    remedy: ClassVar[str] = "Restore both from a copy."


class MergeContextError(DeltaError):
    """Sub-manifests of different comparisons cannot be merged."""

    code: ClassVar[str] = "DELTA_MERGE_CONTEXT"
    remedy: ClassVar[str] = "Merge only what one plan made."


class MergeGapError(DeltaError):
    """A key range between two sub-manifests was not compared."""

    code: ClassVar[str] = "DELTA_MERGE_GAP"
    remedy: ClassVar[str] = "Run the missing shard again, then merge."


class MergeOverlapError(DeltaError):
    """A key range was compared twice."""

    code: ClassVar[str] = "DELTA_MERGE_OVERLAP"
    remedy: ClassVar[str] = "Merge each shard of one plan once."


class EnvelopeError(DeltaError):
    """An envelope is not a DSSE envelope over a manifest statement."""

    code: ClassVar[str] = "DELTA_ENVELOPE"
    remedy: ClassVar[str] = "Restore the envelope from a copy."


class SignatureInvalidError(DeltaError):
    """A signature does not verify under the trusted key."""

    code: ClassVar[str] = "DELTA_SIGNATURE_INVALID"
    remedy: ClassVar[str] = "Treat the manifest as unsigned; find out who changed it."


class SignatureUntrustedError(DeltaError):
    """No signature by a key that is trusted for this pair and log window."""

    code: ClassVar[str] = "DELTA_SIGNATURE_UNTRUSTED"
    remedy: ClassVar[str] = "Add the key to the trust document, or sign with a trusted key."


class StatementMismatchError(DeltaError):
    """A valid signature covers another manifest."""

    code: ClassVar[str] = "DELTA_STATEMENT_MISMATCH"
    remedy: ClassVar[str] = "Restore the envelope that belongs to this manifest."


class SignSizeError(DeltaError):
    """A name, version, key or bound is longer than a signed manifest may hold."""

    code: ClassVar[str] = "DELTA_SIGN_SIZE"
    remedy: ClassVar[str] = "Shorten it; the limits stand in docs/format.md, S9."


class StoreNotWriteOnceError(DeltaError):
    """The store let a second create replace the first."""

    code: ClassVar[str] = "DELTA_STORE_NOT_WRITE_ONCE"
    remedy: ClassVar[str] = "Use a local folder or an object store with conditional create."


class StoreConflictError(DeltaError):
    """The store already holds other bytes under this name."""

    code: ClassVar[str] = "DELTA_STORE_CONFLICT"
    remedy: ClassVar[str] = "Keep the store for inspection; verify it before writing again."


class StoreFileError(DeltaError):
    """Something in the store is not a plain file of ours (link, device, permissions)."""

    code: ClassVar[str] = "DELTA_STORE_FILE"
    remedy: ClassVar[str] = "Remove what was put there by hand; the store follows no links."


class StoreMissingError(DeltaError):
    """The store does not hold what is asked for."""

    code: ClassVar[str] = "DELTA_STORE_MISSING"
    remedy: ClassVar[str] = "Check the digest and the store's address."


class StoreReadError(DeltaError):
    """The store could not be read: no permission, or a medium that fails."""

    code: ClassVar[str] = "DELTA_STORE_READ"
    remedy: ClassVar[str] = "Give permission to read the whole store, or look after its disk."
    retryable: ClassVar[bool] = True


class StoreRetiredError(DeltaError):
    """The body was retired on purpose and is gone."""

    code: ClassVar[str] = "DELTA_STORE_RETIRED"
    remedy: ClassVar[str] = "Restore it from an archive if the records are needed; the log names its retirement."


class StoreSchemeError(DeltaError):
    """No kind of store answers to this address."""

    code: ClassVar[str] = "DELTA_STORE_SCHEME"
    remedy: ClassVar[str] = "Give a folder, or a URI of a kind that the message lists."


class StoreWriteError(DeltaError):
    """The store could not write: no room, no permission, or a file system without hard links."""

    code: ClassVar[str] = "DELTA_STORE_WRITE"
    remedy: ClassVar[str] = "Make room or give permission, then run again: what is stored already is reused."
    retryable: ClassVar[bool] = True


class TrustError(DeltaError):
    """A trust document is not what the format allows, or a trusted key cannot be read."""

    code: ClassVar[str] = "DELTA_TRUST"
    remedy: ClassVar[str] = "Correct the trust document; docs/format.md, S9, shows its members."


class SignKeyError(DeltaError):
    """A signing key cannot be read, or is of a kind that signs no manifest."""

    code: ClassVar[str] = "DELTA_SIGN_KEY"
    remedy: ClassVar[str] = "Give an Ed25519 or ECDSA P-256 private key in PEM, and its password if it has one."


class KeyServiceError(DeltaError):
    """The service that holds a signing key does not answer, refuses, or signs by another key."""

    code: ClassVar[str] = "DELTA_SIGN_SERVICE"
    remedy: ClassVar[str] = (
        "Check that the service can be reached, and that these credentials may read and use the key."
    )
    retryable: ClassVar[bool] = True


class OutputExistsError(DeltaError):
    """This run already published another manifest."""

    code: ClassVar[str] = "DELTA_OUTPUT_EXISTS"
    remedy: ClassVar[str] = "Use on_rerun: recompute to log a second one."


class LogChainError(DeltaError):
    """A log entry does not follow from the one before it."""

    code: ClassVar[str] = "DELTA_LOG_CHAIN"
    remedy: ClassVar[str] = "The log was altered: compare it with an anchor or a copy."


class LogGapError(DeltaError):
    """A log entry is missing."""

    code: ClassVar[str] = "DELTA_LOG_GAP"
    remedy: ClassVar[str] = "The log was cut: compare it with an anchor or a copy."


class LogAnchorError(DeltaError):
    """An anchor does not match the log."""

    code: ClassVar[str] = "DELTA_LOG_ANCHOR"
    remedy: ClassVar[str] = "The log was altered or rolled back: compare it with a copy."


class LogConsistencyError(DeltaError):
    """A newer log does not extend an older one."""

    code: ClassVar[str] = "DELTA_LOG_CONSISTENCY"
    remedy: ClassVar[str] = "The log was forked: compare both with a copy."


class PatchRuleError(DeltaError):
    """This combination of conflict rule, column and side is not defined."""

    code: ClassVar[str] = "DELTA_PATCH_RULE"
    remedy: ClassVar[str] = (
        "Use source_authoritative on the target, last_writer_wins with a column, or flag_for_review."
    )


class CheckpointRequiredError(DeltaError):
    """A patch has no checkpoint, so nothing may be written."""

    code: ClassVar[str] = "DELTA_CHECKPOINT_REQUIRED"
    remedy: ClassVar[str] = "Start the patch again; it publishes the checkpoint first."


class CheckpointMismatchError(DeltaError):
    """A checkpoint belongs to another patch, or the patch was rolled back."""

    code: ClassVar[str] = "DELTA_CHECKPOINT_MISMATCH"
    remedy: ClassVar[str] = "Compare anew and patch the new manifest."


class LedgerMismatchError(DeltaError):
    """A ledger does not follow from its checkpoint and manifest."""

    code: ClassVar[str] = "DELTA_LEDGER_MISMATCH"
    remedy: ClassVar[str] = "Restore the ledger from a copy; roll back only what it proves."


class GenerationContractError(DeltaError):
    """A generation header has other members or values than the format allows."""

    code: ClassVar[str] = "DELTA_GENERATION_CONTRACT"
    remedy: ClassVar[str] = "Restore it from a copy."


class GenerationContextError(DeltaError):
    """The predecessor was made under another contract, schema, key or pair."""

    code: ClassVar[str] = "DELTA_GENERATION_CONTEXT"
    remedy: ClassVar[str] = "Start a new series, or sweep with the specification of the predecessor."


class GenerationChainError(DeltaError):
    """The predecessor is not the newest generation, or another sweep took its place."""

    code: ClassVar[str] = "DELTA_GENERATION_CHAIN"
    remedy: ClassVar[str] = "Sweep again from the newest generation."


class GenerationStepError(DeltaError):
    """An entry does not follow from the one of the generation before."""

    code: ClassVar[str] = "DELTA_GENERATION_STEP"
    remedy: ClassVar[str] = "Restore the generation from a copy."


class GenerationLostError(DeltaError):
    """A key of the predecessor is missing."""

    code: ClassVar[str] = "DELTA_GENERATION_LOST"
    remedy: ClassVar[str] = "Restore the generation from a copy; keys are never forgotten."


class PackLimitError(DeltaError):
    """A pack is larger than the format allows."""

    code: ClassVar[str] = "DELTA_PACK_LIMIT"
    remedy: ClassVar[str] = "Restore the pack from a copy."


class PackIndexError(DeltaError):
    """A pack index does not recombine to the body's root."""

    code: ClassVar[str] = "DELTA_PACK_INDEX"
    remedy: ClassVar[str] = "Rebuild the index from verified packs."


class PackDigestError(DeltaError):
    """A pack does not hash to what its index says."""

    code: ClassVar[str] = "DELTA_PACK_DIGEST"
    remedy: ClassVar[str] = "Restore the pack from a copy."


class RecordLimitError(DeltaError):
    """More records differ than limits.max_discrepancies allows."""

    code: ClassVar[str] = "DELTA_RECORD_LIMIT"
    remedy: ClassVar[str] = "Nothing was published. Raise the limit, or find out why the sides are so different."


class DiskLimitError(DeltaError):
    """More bytes would be written than limits.max_bytes allows."""

    code: ClassVar[str] = "DELTA_DISK_LIMIT"
    remedy: ClassVar[str] = "Nothing was published. Raise the limit or narrow the key range."


class WallLimitError(DeltaError):
    """The run took longer than limits.max_seconds allows."""

    code: ClassVar[str] = "DELTA_WALL_LIMIT"
    remedy: ClassVar[str] = "Nothing was published. Raise the limit or use more workers."


class LimitError(DeltaError):
    """A document or a value is larger than its limit."""

    code: ClassVar[str] = "DELTA_LIMIT"
    remedy: ClassVar[str] = "Split the work, or raise the limit that the message names."
