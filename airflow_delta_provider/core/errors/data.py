"""Refusals of values, keys, records and the JSON that holds them."""

from typing import ClassVar

from airflow_delta_provider.core.errors.base import DeltaError


class JsonSyntaxError(DeltaError):
    """The bytes are not JSON."""

    code: ClassVar[str] = "DELTA_JSON_SYNTAX"
    remedy: ClassVar[str] = "Restore the artifact from a copy; it was cut or overwritten."


class JsonDomainError(DeltaError):
    """JSON holds a value outside the hashed profile (a float, a big integer, a member name)."""

    code: ClassVar[str] = "DELTA_JSON_DOMAIN"
    remedy: ClassVar[str] = "Write such values as text; see docs/format.md, S1."


class JsonNotCanonicalError(DeltaError):
    """JSON differs from its own canonical serialisation."""

    code: ClassVar[str] = "DELTA_JSON_NOT_CANONICAL"
    remedy: ClassVar[str] = (
        "Restore the artifact; it was rewritten by a tool that changes white space, order or escapes."
    )


class FormatError(DeltaError):
    """A document or a store names a format that this version does not read."""

    code: ClassVar[str] = "DELTA_FORMAT"
    remedy: ClassVar[str] = "Read it with the version of airflow-delta-provider that wrote it, or upgrade."


class ValueTypeError(DeltaError):
    """A value is not of its column's logical type."""

    code: ClassVar[str] = "DELTA_VALUE_TYPE"
    remedy: ClassVar[str] = "Correct the value, or declare how to read it with read_as."


class ValueRangeError(DeltaError):
    """A value is beyond what its logical type can hold."""

    code: ClassVar[str] = "DELTA_VALUE_RANGE"
    remedy: ClassVar[str] = "Correct the value, exclude the column, or declare another type with read_as."


class ValueLossyError(DeltaError):
    """A cast would lose information."""

    code: ClassVar[str] = "DELTA_VALUE_LOSSY"
    remedy: ClassVar[str] = "Name the loss as a rule (round, precision, single_precision), or widen the type."


class ValueTextError(DeltaError):
    """A text is not what its column demands (bad syntax or invalid Unicode)."""

    code: ClassVar[str] = "DELTA_VALUE_TEXT"
    remedy: ClassVar[str] = "Correct the value, or let read_as say otherwise: different."


class ValueJsonError(DeltaError):
    """A value of a JSON column is not JSON that can be canonicalised."""

    code: ClassVar[str] = "DELTA_VALUE_JSON"
    remedy: ClassVar[str] = "Correct the value, or compare the column as text."


class DetailError(DeltaError):
    """A recorded value has not the form that detail and sensitive demand."""

    code: ClassVar[str] = "DELTA_DETAIL"
    remedy: ClassVar[str] = "The record was altered or written by another tool: restore the manifest's body."


class HmacKeyError(DeltaError):
    """Keyed digests are asked for and no key is at hand."""

    code: ClassVar[str] = "DELTA_HMAC_KEY"
    remedy: ClassVar[str] = "Give hmac: {conn_id: ...} or {env: NAME} in the specification."


class KeyTypeError(DeltaError):
    """A column of this type cannot be a key."""

    code: ClassVar[str] = "DELTA_KEY_TYPE"
    remedy: ClassVar[str] = "Choose other key columns, or read the column as text."


class KeyRangeError(DeltaError):
    """A key value is infinite or has more than 128 bits."""

    code: ClassVar[str] = "DELTA_KEY_RANGE"
    remedy: ClassVar[str] = "Correct the row, or choose another key."


class KeyTextError(DeltaError):
    """A key text is not valid Unicode."""

    code: ClassVar[str] = "DELTA_KEY_TEXT"
    remedy: ClassVar[str] = "Correct the row, or choose another key."


class KeyNullError(DeltaError):
    """Rows have a NULL in the key."""

    code: ClassVar[str] = "DELTA_KEY_NULL"
    remedy: ClassVar[str] = "Set keys: {nulls: set_aside} to count them apart, or match to pair them."


class KeyDuplicateError(DeltaError):
    """A key occurs more than once on one side."""

    code: ClassVar[str] = "DELTA_KEY_DUPLICATE"
    remedy: ClassVar[str] = "Add columns to the key until it is unique, or set keys: {duplicates: set_aside}."


class KeySensitiveError(DeltaError):
    """A key column is declared sensitive, but keys stand in clear."""

    code: ClassVar[str] = "DELTA_KEY_SENSITIVE"
    remedy: ClassVar[str] = "Take the column off sensitive, or key on a surrogate."


class KeyEncodingError(DeltaError):
    """Key bytes do not decode to themselves."""

    code: ClassVar[str] = "DELTA_KEY_ENCODING"
    remedy: ClassVar[str] = "The record was altered or written by another tool: restore the body."


class KeyMismatchError(DeltaError):
    """A record's key is not the one that its sort_key holds."""

    code: ClassVar[str] = "DELTA_KEY_MISMATCH"
    remedy: ClassVar[str] = "The record was altered: restore the body."


class InputDigestError(DeltaError):
    """A digest is not 64 lower-case hex digits."""

    code: ClassVar[str] = "DELTA_INPUT_DIGEST"
    remedy: ClassVar[str] = "Copy the digest again from show, log or XCom."


class InputManifestError(DeltaError):
    """What the digest names is not a manifest."""

    code: ClassVar[str] = "DELTA_INPUT_MANIFEST"
    remedy: ClassVar[str] = "Give the digest of a manifest."


class InputShardError(DeltaError):
    """What the digest names is not a planned shard or its comparison."""

    code: ClassVar[str] = "DELTA_INPUT_SHARD"
    remedy: ClassVar[str] = "Plan anew; the work folder of that run was removed."


class UnsortedStreamError(DeltaError):
    """Keys of one stream went down, so a merge would miscount."""

    code: ClassVar[str] = "DELTA_INPUT_ORDER"
    remedy: ClassVar[str] = "Report this with the engine's version: its order is not the order of canonical keys."


class InputPathError(DeltaError):
    """A path does not name a readable file."""

    code: ClassVar[str] = "DELTA_INPUT_PATH"
    remedy: ClassVar[str] = "Correct the path or its permissions."


class InputPolicyError(DeltaError):
    """An unknown policy was asked for."""

    code: ClassVar[str] = "DELTA_INPUT_POLICY"
    remedy: ClassVar[str] = "Choose one of the policies that the message lists."


class RecordContractError(DeltaError):
    """A record has other members or values than its contract allows."""

    code: ClassVar[str] = "DELTA_RECORD_CONTRACT"
    remedy: ClassVar[str] = "The body was altered or written by another tool: restore it."


class IdentityDerivationError(DeltaError):
    """A record's id does not follow from its key."""

    code: ClassVar[str] = "DELTA_IDENTITY_DERIVATION"
    remedy: ClassVar[str] = "The record was altered: restore the body."


class RangeError(DeltaError):
    """A key lies outside the key range of its manifest, or the range is empty."""

    code: ClassVar[str] = "DELTA_RANGE"
    remedy: ClassVar[str] = "Bounds are half-open and ascend: lower is below upper."


class TooDifferentError(DeltaError):
    """A larger share of the rows differs than limits.max_share allows."""

    code: ClassVar[str] = "DELTA_TOO_DIFFERENT"
    remedy: ClassVar[str] = (
        "Nothing was published. Look whether the key, the tables or the time are the right ones; or raise the limit."
    )
