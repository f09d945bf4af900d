"""Rules: what a reconciliation may call equal beyond equal values, and how texts are read as typed values."""

from airflow_delta_provider.core.rules.documents import NormalRules, ignored_names, normalise_rules
from airflow_delta_provider.core.rules.fit import EffectiveTypes, effective_types, fits, type_after, types_after
from airflow_delta_provider.core.rules.ladder import Ladder, evaluate, recorded
from airflow_delta_provider.core.rules.pairs import equal_under
from airflow_delta_provider.core.rules.parse import parse_text
from airflow_delta_provider.core.rules.transforms import PAIR_RULES, apply, apply_key_rules
from airflow_delta_provider.core.rules.typed import Typed, UnparsedValue, joined

__all__ = [
    "PAIR_RULES",
    "EffectiveTypes",
    "Ladder",
    "NormalRules",
    "Typed",
    "UnparsedValue",
    "apply",
    "apply_key_rules",
    "effective_types",
    "equal_under",
    "evaluate",
    "fits",
    "ignored_names",
    "joined",
    "normalise_rules",
    "parse_text",
    "recorded",
    "type_after",
    "types_after",
]
