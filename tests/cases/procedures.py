"""Where the procedure of each handed case is tested, and what those tests share."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
HERE, RUNS, PATCHES = (f"cases/test_procedures{part}.py" for part in ("", "_runs", "_patches"))
APPLY = "cases/test_apply.py::test_a_patch_makes_the_sides_equal_and_a_rollback_brings_the_target_back"
INDEX: dict[str, list[str]] = {
    "rc-113": [APPLY],
    "rc-137": [APPLY],
    "rc-188": [APPLY],
    "rc-199": [f"{HERE}::test_rc_199_a_dropped_column_is_nowhere_mentioned"],
    "rc-207": [f"{HERE}::test_rc_207_a_double_quote_stays_inside_its_name"],
    "rc-208": [f"{HERE}::test_rc_208_an_apostrophe_in_a_name_does_not_hide_the_primary_key"],
    "rc-210": [f"{HERE}::test_rc_210_a_second_statement_in_a_filter_is_refused"],
    "rc-213": [f"{HERE}::test_rc_213_a_failed_connection_tells_the_side_and_no_secret"],
    "rc-215": ["airflow/test_procedures.py::test_rc_215_a_password_in_an_error_of_the_driver_is_masked"],
    "rc-216": [f"{HERE}::test_rc_216_an_empty_password_masks_nothing"],
    "rc-217": [f"{HERE}::test_rc_217_a_password_of_special_characters_connects"],
    "rc-218": ["airflow/test_procedures.py::test_rc_218_extras_reach_the_driver_or_are_refused_by_name"],
    "rc-219": [f"{HERE}::test_rc_219_each_spelling_of_a_scheme_is_read"],
    "rc-220": ["airflow/test_procedures.py::test_rc_220_empty_tables_let_the_users_task_run"],
    "rc-222": ["airflow/test_procedures.py::test_rc_222_one_shard_gives_the_manifest_of_four"],
    "rc-223": ["airflow/test_dag_runs.py::test_a_shard_that_is_skipped_is_a_hole"],
    "rc-224": ["airflow/test_procedures.py::test_rc_224_no_order_of_the_shards_shows"],
    "rc-226": ["airflow/test_procedures.py::test_rc_226_a_lower_limit_of_mapping_gives_fewer_shards"],
    "rc-230": ["airflow/test_hooks.py::test_a_store_is_the_host_of_its_connection"],
    "rc-231": [f"{RUNS}::test_rc_231_large_tables_are_streamed"],
    "rc-232": [f"{RUNS}::test_rc_232_wide_rows_are_read_within_the_memory"],
    "rc-235": [
        "engine/test_run_crash.py::test_killed_at_every_call_of_the_store",
        "engine/test_cancel.py::test_a_long_statement_is_cancelled_and_the_side_goes_on",
    ],
    "rc-236": ["airflow/test_dag_runs.py::test_a_rerun_of_a_run_stands_by_its_manifest"],
    "rc-237": ["engine/test_run_crash.py::test_killed_at_every_system_call_on_files"],
    "rc-238": [
        f"{RUNS}::test_rc_238_a_connection_that_drops_gives_no_manifest",
        "engine/test_cancel.py::test_a_line_that_breaks_in_the_middle_gives_no_verdict",
    ],
    "rc-239": [f"{RUNS}::test_rc_239_the_process_ends"],
    "rc-240": [f"{RUNS}::test_rc_240_a_changed_option_reuses_nothing"],
    "rc-241": [f"{RUNS}::test_rc_241_moving_keys_are_seen_once"],
    "rc-242": ["engine/test_recheck.py::test_a_row_that_arrives_late_is_in_flight_and_not_recorded"],
    "rc-244": [f"{RUNS}::test_rc_244_a_limit_that_is_reached_publishes_nothing"],
    "rc-246": [APPLY],
    "rc-247": [APPLY, f"{PATCHES}::test_rc_247_the_children_of_an_updated_row_stay"],
    "rc-250": [APPLY],
    "rc-253": [APPLY, "engine/test_patching.py::test_unique_values_are_exchanged_in_one_transaction"],
    "rc-254": [APPLY, f"{PATCHES}::test_rc_254_a_rollback_over_somebodys_work_is_refused"],
    "rc-256": [APPLY, f"{PATCHES}::test_rc_256_a_row_that_was_deleted_meanwhile_is_not_created"],
    "rc-257": [APPLY],
    "rc-258": [APPLY, f"{PATCHES}::test_rc_258_an_identity_takes_the_key_of_the_source"],
    "rc-259": [APPLY],
    "rc-261": [APPLY, "engine/test_patching.py::test_rows_that_refer_to_each_other_are_written_in_order"],
    "rc-262": [APPLY, f"{PATCHES}::test_rc_262_a_foreign_key_that_the_new_rows_break_leaves_the_target_as_it_was"],
    "rc-277": [f"{RUNS}::test_rc_231_large_tables_are_streamed"],
    "rc-278": [APPLY],
}
"""By case: the tests that stand for its procedure, as file and name."""


def exists(place: str) -> bool:
    """Tell whether a test that the index names is there."""
    file, _, name = place.partition("::")
    path = ROOT / file
    return path.is_file() and re.search(rf"^def {name}\(", path.read_text(encoding="utf-8"), re.MULTILINE) is not None


def spec(source: dict[str, Any], target: dict[str, Any], **members: Any) -> dict[str, Any]:
    """Return a specification under fixed labels."""
    named = {"source": {**source, "label": "s"}, "target": {**target, "label": "t"}}
    return {"name": "procedure", "schema_version": "1", "key": ["id"], **named, **members}


def sqlite_file(path: Path, *statements: str) -> dict[str, Any]:
    """Write a SQLite file; return its side without a table."""
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return {"uri": f"sqlite:///{path}"}


def records(shown: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    """Return category and key of each record."""
    return [(record["category"], record["key"]) for record in shown["records"]]


def write_spec(form: dict[str, Any], folder: Path) -> Path:
    """Write a specification file."""
    path = folder / "spec.yaml"
    path.write_text(yaml.safe_dump(form, allow_unicode=True), encoding="utf-8")
    return path
