"""Patches: plan, apply under a checkpoint, prove, and take back (docs/format.md, S10)."""

from airflow_delta_provider.engine.patching.apply import apply_patch, plan_patch
from airflow_delta_provider.engine.patching.options import PatchOptions, PatchOutcome, PatchPlan
from airflow_delta_provider.engine.patching.rollback import rollback_patch

__all__ = ["PatchOptions", "PatchOutcome", "PatchPlan", "apply_patch", "plan_patch", "rollback_patch"]
