"""Refusals of specifications, sides, rules, filters and patches."""

from typing import ClassVar

from airflow_delta_provider.core.errors.base import DeltaError


class SpecSyntaxError(DeltaError):
    """A specification is not YAML or JSON with one map."""

    code: ClassVar[str] = "DELTA_SPEC_SYNTAX"
    remedy: ClassVar[str] = "Correct the file at the line that the message names."


class SpecFieldError(DeltaError):
    """A specification has an unknown field, or lacks a required one."""

    code: ClassVar[str] = "DELTA_SPEC_FIELD"
    remedy: ClassVar[str] = "See docs/specification.md for the fields."


class SpecValueError(DeltaError):
    """A field of the specification has a value that it cannot take."""

    code: ClassVar[str] = "DELTA_SPEC_VALUE"
    remedy: ClassVar[str] = "Correct the value; the message says what it takes."


class SpecColumnError(DeltaError):
    """The specification names a column that the side does not have."""

    code: ClassVar[str] = "DELTA_SPEC_COLUMN"
    remedy: ClassVar[str] = (
        "Correct the name; names are source names, and a name that only the target has means the target's."
    )


class SpecKeyError(DeltaError):
    """No key is given, and the sides declare no common primary key."""

    code: ClassVar[str] = "DELTA_SPEC_KEY"
    remedy: ClassVar[str] = "Name the key columns under key."


class SpecEnvError(DeltaError):
    """The specification refers to an environment variable that is not set."""

    code: ClassVar[str] = "DELTA_SPEC_ENV"
    remedy: ClassVar[str] = "Set the variable, or write the value."


class SpecEmptyError(DeltaError):
    """Nothing would be compared."""

    code: ClassVar[str] = "DELTA_SPEC_EMPTY"
    remedy: ClassVar[str] = "Leave at least one column to compare, or a key that both sides have."


class SideMissingError(DeltaError):
    """A side's table, query or file does not exist."""

    code: ClassVar[str] = "DELTA_SIDE_MISSING"
    remedy: ClassVar[str] = "Correct the name, or grant the right to read it."


class SideColumnTypeError(DeltaError):
    """A column's engine type has no logical type."""

    code: ClassVar[str] = "DELTA_SIDE_TYPE"
    remedy: ClassVar[str] = "Exclude the column, or read it as the message advises."


class SideIncomparableError(DeltaError):
    """Two paired columns have types of different families."""

    code: ClassVar[str] = "DELTA_SIDE_INCOMPARABLE"
    remedy: ClassVar[str] = "Name the rule that makes them comparable, or exclude the column."


class SideFileError(DeltaError):
    """A file of a side cannot be read to its end (cut, damaged or of another format)."""

    code: ClassVar[str] = "DELTA_SIDE_FILE"
    remedy: ClassVar[str] = "Write the file again; a verdict needs the whole of it."


class SideLineError(DeltaError):
    """A line of a text file breaks the file's form."""

    code: ClassVar[str] = "DELTA_SIDE_LINE"
    remedy: ClassVar[str] = "Correct the line; its number stands in the message."


class SideReadError(DeltaError):
    """A side stopped answering while it was read."""

    code: ClassVar[str] = "DELTA_SIDE_READ"
    remedy: ClassVar[str] = "Check the server and run again; nothing was published."
    retryable: ClassVar[bool] = True


class FingerprintDeclinedError(DeltaError):
    """The engine of a side declined a statement that only a fingerprint needs, and would go on with others."""

    code: ClassVar[str] = "DELTA_SIDE_FINGERPRINT"
    remedy: ClassVar[str] = "Read the reason in the message and mend it, or set strategy: stream."
    retryable: ClassVar[bool] = True


class SideSchemeError(DeltaError):
    """No adapter reads this kind of side."""

    code: ClassVar[str] = "DELTA_SIDE_SCHEME"
    remedy: ClassVar[str] = "Use one of the kinds that the message lists, or install the extra that it names."


class SideChangedError(DeltaError):
    """A side's columns changed between plan and read."""

    code: ClassVar[str] = "DELTA_SIDE_CHANGED"
    remedy: ClassVar[str] = "Plan again once the migration has ended."
    retryable: ClassVar[bool] = True


class SideNamesError(DeltaError):
    """Two columns of one side have one name under the chosen comparison of names."""

    code: ClassVar[str] = "DELTA_SIDE_NAMES"
    remedy: ClassVar[str] = "Use names: exact and map the columns one by one."


class WorkerLostError(DeltaError):
    """A local worker process ended before its shard did."""

    code: ClassVar[str] = "DELTA_WORKER_LOST"
    remedy: ClassVar[str] = "Nothing was published. Run again with fewer workers if memory ran out."
    retryable: ClassVar[bool] = True


class ConnectError(DeltaError):
    """A database or store cannot be reached."""

    code: ClassVar[str] = "DELTA_CONNECT"
    remedy: ClassVar[str] = "Check host, port, user and network; the message holds no password."
    retryable: ClassVar[bool] = True


class FilterError(DeltaError):
    """A filter is not one boolean expression over the side's columns."""

    code: ClassVar[str] = "DELTA_FILTER"
    remedy: ClassVar[str] = "Write one expression without statements, comments or subqueries."


class RuleUnknownError(DeltaError):
    """The specification names a rule that does not exist."""

    code: ClassVar[str] = "DELTA_RULE_UNKNOWN"
    remedy: ClassVar[str] = "Use a rule of docs/contract.md, section 4."


class RuleParameterError(DeltaError):
    """A rule has an unknown, missing or unusable parameter."""

    code: ClassVar[str] = "DELTA_RULE_PARAMETER"
    remedy: ClassVar[str] = "See docs/contract.md, section 4, for its parameters."


class RuleFitError(DeltaError):
    """A rule fits no column that it is written for."""

    code: ClassVar[str] = "DELTA_RULE_FIT"
    remedy: ClassVar[str] = "Take the rule out, or write it under a column of a type that it fits."


class RuleKeyError(DeltaError):
    """This rule cannot apply to a key column."""

    code: ClassVar[str] = "DELTA_RULE_KEY"
    remedy: ClassVar[str] = "Only read_as and normalize apply to keys."


class RuleZoneError(DeltaError):
    """A wall-clock time is ambiguous or skipped in its zone."""

    code: ClassVar[str] = "DELTA_RULE_ZONE"
    remedy: ClassVar[str] = "Say ambiguous: first or second, skipped: before or after."


class PatchConflictError(DeltaError):
    """A row was written after the comparison, so the patch would overwrite it."""

    code: ClassVar[str] = "DELTA_PATCH_CONFLICT"
    remedy: ClassVar[str] = "Compare anew, or patch with --conflicts skip."


class PatchReviewError(DeltaError):
    """The rule leaves the decision to a person."""

    code: ClassVar[str] = "DELTA_PATCH_REVIEW"
    remedy: ClassVar[str] = "Read the review list and patch with another rule."


class PatchUnsafeError(DeltaError):
    """The table has triggers or cascades that would write more than the patch says."""

    code: ClassVar[str] = "DELTA_PATCH_UNSAFE"
    remedy: ClassVar[str] = "Allow them by name, or patch by other means."


class PatchShareError(DeltaError):
    """The change is too large to be a repair."""

    code: ClassVar[str] = "DELTA_PATCH_SHARE"
    remedy: ClassVar[str] = "Find out why the sides are so different, or raise max_share."


class PatchManifestError(DeltaError):
    """This manifest cannot be applied (partial, filtered, too old, unsigned or of other sides)."""

    code: ClassVar[str] = "DELTA_PATCH_MANIFEST"
    remedy: ClassVar[str] = "Compare anew over the whole key space and sign the manifest."


class PatchSideError(DeltaError):
    """The side that would be patched is a query, a view or a file, or a table that has no transactions."""

    code: ClassVar[str] = "DELTA_PATCH_SIDE"
    remedy: ClassVar[str] = "Only tables of PostgreSQL, MySQL, MariaDB (InnoDB), SQLite and DuckDB are patched."


class PatchWriteError(DeltaError):
    """The database refused a write; the transaction was rolled back."""

    code: ClassVar[str] = "DELTA_PATCH_WRITE"
    remedy: ClassVar[str] = "Read the database's reason in the message, mend it and start the patch again."


class SideSortError(DeltaError):
    """The engine would have to sort a large table for one shard after another."""

    code: ClassVar[str] = "DELTA_SIDE_SORT"
    remedy: ClassVar[str] = (
        "Make an index on the key, in the order of its columns; or allow it: manners.source.sort, manners.target.sort."
    )
