"""From the raw comparison of one shard to its sub-manifest: canonical lines, digests, summary (docs/format.md, S4 to S8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa

from airflow_delta_provider.core import documents, ids
from airflow_delta_provider.core.body import BodyFacts, BodyWriter, records_to_lines
from airflow_delta_provider.core.errors import DiskLimitError, InputShardError
from airflow_delta_provider.core.keytexts import key_texts
from airflow_delta_provider.core.manifest import Context, build_manifest
from airflow_delta_provider.core.rawcompare import RawReader
from airflow_delta_provider.core.types import LogicalType, from_schema

ONE_SIDED = b"null"


@dataclass(frozen=True, slots=True)
class SubManifest:
    """One sub-manifest as bytes, its summary document, and what is known of the body that was written."""

    manifest: bytes
    summary: bytes
    facts: BodyFacts

    @property
    def digest_hex(self) -> str:
        """The manifest id."""
        return ids.sha256_hex(self.manifest)


@dataclass(frozen=True, slots=True)
class Shared:
    """The documents that every shard of one comparison shares.

    Shape: ``schema``, ``contract``, ``structure`` are the documents' bytes, the ``..._form`` members the same parsed;
    ``context`` holds their digests; ``identity`` is one digest over all of it, which every raw comparison names.
    """

    schema: bytes
    contract: bytes
    structure: bytes
    context: Context
    schema_form: documents.Document
    contract_form: documents.Document
    identity: str

    @property
    def key_types(self) -> list[LogicalType]:
        """The canonical types of the key."""
        return [from_schema(form) for _, form in self.schema_form["key"]]


def shared_of(schema: bytes, contract: bytes, structure: bytes, pair: dict[str, str]) -> Shared:
    """Parse the shared documents. Raises: SchemaError, ContractError, StructureError and those of canonical JSON."""
    schema_form, contract_form = documents.parse_schema(schema), documents.parse_contract(contract)
    documents.check_contract_fits(contract_form, schema_form)
    findings = len(documents.parse_structure(structure)["findings"])
    digests = [ids.sha256_hex(part) for part in (schema, contract, structure, documents.pair_bytes(**pair))]
    context = Context(
        pair=pair,
        key_columns=[name for name, _ in schema_form["key"]],
        key_types=[form for _, form in schema_form["key"]],
        contract=(digests[1], contract_form["version"]),
        schema=(digests[0], schema_form["version"]),
        structure=(digests[2], findings),
    )
    identity = ids.sha256_hex("".join(digests).encode())
    return Shared(schema, contract, structure, context, schema_form, contract_form, identity)


def build_sub_manifest(raw: BinaryIO, shared: Shared, out: BinaryIO, *, bytes_max: int | None = None) -> SubManifest:
    """Write the body of one shard to ``out`` and return its sub-manifest.

    Raises: InputShardError where the raw comparison was cut or belongs to other documents, DiskLimitError beyond
    ``bytes_max``, DenominatorError, UnsortedStreamError, RangeError.
    """
    reader = RawReader(raw)
    if reader.identity != shared.identity:
        raise InputShardError("the raw comparison belongs to other documents.")
    writer = BodyWriter(out, reader.key_range)
    types, version, written = shared.key_types, shared.schema_form["version"], 0
    for batch in reader.batches():
        lines, sort_keys, categories = _lines(batch, version, types)
        writer.write(lines, sort_keys, categories)
        written += sum(map(len, lines)) + len(lines)
        if bytes_max is not None and written > bytes_max:
            raise DiskLimitError(f"the body is larger than {bytes_max} bytes.", where="limits.max_bytes")
    body = writer.close()
    facts = reader.facts or {}
    summary = _summary(facts, shared)
    manifest = build_manifest(shared.context, reader.key_range, body, facts["population"], ids.sha256_hex(summary))
    return SubManifest(manifest, summary, body)


def _lines(
    batch: pa.RecordBatch, schema_version: str, types: list[LogicalType]
) -> tuple[list[bytes], list[bytes], list[str]]:
    column = {name: batch.column(name) for name in batch.schema.names}
    sort_keys = column["sort_key"].to_pylist()
    categories = column["category"].to_pylist()
    ruled = column["source_key"].null_count < batch.num_rows
    lines = records_to_lines(
        schema_version,
        sort_keys,
        categories,
        list(map(key_texts(types), sort_keys)),
        _texts(column["columns"], None),
        _texts(column["source_value"], ONE_SIDED),
        _texts(column["target_value"], ONE_SIDED),
        _texts(column["source_key"], ONE_SIDED) if ruled else None,
        _texts(column["target_key"], ONE_SIDED) if ruled else None,
    )
    return lines, sort_keys, categories


def _texts(column: pa.Array, otherwise: bytes | None) -> list[Any]:
    data = column.cast("large_binary").to_pylist()
    return [otherwise if text is None else text for text in data]


def _summary(facts: dict[str, Any], shared: Shared) -> bytes:
    names = [name for name, _ in shared.schema_form["columns"]]
    counts = dict(zip([name for name, _ in shared.schema_form["key"]], facts["key_rules"], strict=True))
    counts |= dict(zip(names, facts["rules"], strict=True))
    columns = [[name, diverged, sum(counts[name])] for name, diverged in zip(names, facts["diverged"], strict=True)]
    rows = [
        [column, position, counts[column][position]]
        for column, chain in shared.contract_form["rules"]
        for position in range(len(chain))
    ]
    return documents.build_summary(columns, rows)
