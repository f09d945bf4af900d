"""What Airflow is told about the package, and what importing it costs."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema

from airflow_delta_provider.get_provider_info import get_provider_info

MODULES = ("_compat", "assets", "hooks.keys", "hooks.migrations", "hooks.sides", "hooks.signer", "hooks.store", "lineage",
           "links", "notifications.manifest", "operators.common", "operators.manifests", "operators.shards",
           "hooks.writers", "operators.patches", "operators.sweeps",
           "sensors.manifest", "sensors.migration", "task_groups", "triggers.manifest",
           "triggers.migration")  # fmt: skip
HEAVY = ("airflow_delta_provider.engine", "cryptography", "duckdb", "fastapi", "numpy", "pandas", "psycopg", "pyarrow",
         "sqlalchemy", "sqlglot")  # fmt: skip


def dotted(value: Any) -> Iterator[str]:
    """Yield every text of the provider information that is a path of ours."""
    if isinstance(value, str) and value.startswith("airflow_delta_provider."):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from dotted(part)


def test_the_provider_information_fits_the_schema_of_this_airflow():
    """Airflow leaves out a provider whose information does not fit, with a line in a log that nobody reads."""
    import airflow

    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text("utf-8"))
    jsonschema.validate(get_provider_info(), schema)


def test_every_path_in_the_provider_information_can_be_imported():
    """A hook that is named and cannot be imported takes its connection type out of the UI."""
    found = sorted(set(dotted(get_provider_info())))
    assert len(found) == 20
    for path in found:
        try:
            importlib.import_module(path)
        except ModuleNotFoundError:
            module, _, name = path.rpartition(".")
            assert hasattr(importlib.import_module(module), name), path


def test_the_forms_say_what_the_hooks_say():
    """Airflow 3 reads the form from the information, older pages from the hook."""
    for form in get_provider_info()["connection-types"]:
        module, _, name = form["hook-class-name"].rpartition(".")
        hook = getattr(importlib.import_module(module), name)
        stated = hook.get_ui_field_behaviour()
        behaviour = form["ui-field-behaviour"]
        assert (form["connection-type"], form["hook-name"]) == (hook.conn_type, hook.hook_name)
        assert behaviour["hidden-fields"] == stated["hidden_fields"]
        assert behaviour["relabeling"] == stated["relabeling"]
        assert behaviour["placeholders"] == stated["placeholders"]


def test_airflow_lists_the_connection_types():
    """The entry point is found, and the form has our fields."""
    from airflow.providers_manager import ProvidersManager

    widgets = ProvidersManager().connection_form_widgets
    assert "extra__delta_store__trust" in widgets
    assert {"extra__delta_signer__private_key", "extra__delta_signer__passphrase"} <= set(widgets)


def test_importing_the_operators_loads_nothing_heavy_and_nothing_deprecated():
    """Each task process parses its Dag anew: what a module loads is paid for by every shard."""
    script = f"""
import importlib, json, sys, warnings
import airflow.sdk
from airflow.providers.common.compat import sdk
from airflow.utils.deprecation_tools import DeprecatedImportWarning
for name in {importlib.import_module("airflow_delta_provider._compat").__all__!r}:
    getattr(sdk, name)
before = set(sys.modules)
warnings.simplefilter("error", DeprecatedImportWarning)
for name in {MODULES!r}:
    importlib.import_module("airflow_delta_provider." + name)
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert "airflow_delta_provider.task_groups" in loaded
    assert [name for name in loaded if name.startswith(HEAVY)] == []
