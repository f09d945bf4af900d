"""The hashed documents of docs/format.md, S7, S10 and S11: one file a document, built and parsed with exact members."""

from airflow_delta_provider.core.documents.contract import build_contract, check_contract_fits, parse_contract, rules_of
from airflow_delta_provider.core.documents.generation import build_generation, check_sweep_sums, parse_generation
from airflow_delta_provider.core.documents.limits import BOUND_BYTES_MAX, check_sign_limits, cut_bound
from airflow_delta_provider.core.documents.manifest import check_population, parse_manifest, range_bytes
from airflow_delta_provider.core.documents.pair import pair_bytes, pair_id, parse_pair
from airflow_delta_provider.core.documents.patch import build_checkpoint, build_ledger, parse_checkpoint, parse_ledger
from airflow_delta_provider.core.documents.schema import INLINE_LIMIT, build_schema, parse_schema
from airflow_delta_provider.core.documents.shape import Document
from airflow_delta_provider.core.documents.summary import (
    add_summaries,
    build_structure,
    build_summary,
    check_summary_fits,
    parse_structure,
    parse_summary,
)

__all__ = [
    "BOUND_BYTES_MAX",
    "INLINE_LIMIT",
    "Document",
    "add_summaries",
    "build_checkpoint",
    "build_contract",
    "build_generation",
    "build_ledger",
    "build_schema",
    "build_structure",
    "build_summary",
    "check_contract_fits",
    "check_population",
    "check_sign_limits",
    "check_summary_fits",
    "check_sweep_sums",
    "cut_bound",
    "pair_bytes",
    "pair_id",
    "parse_checkpoint",
    "parse_contract",
    "parse_generation",
    "parse_ledger",
    "parse_manifest",
    "parse_pair",
    "parse_schema",
    "parse_structure",
    "parse_summary",
    "range_bytes",
    "rules_of",
]
