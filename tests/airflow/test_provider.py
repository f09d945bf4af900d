"""What Airflow is told about the package, and what importing it costs."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import yaml

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
    assert len(found) == 21
    for path in found:
        try:
            importlib.import_module(path)
        except ModuleNotFoundError:
            module, _, name = path.rpartition(".")
            assert hasattr(importlib.import_module(module), name), path


KEYS = {"package-name", "name", "description", "versions", "documentation-url", "integrations", "operators", "sensors",
        "hooks", "triggers", "connection-types", "extra-links", "notifications", "asset-uris", "plugins"}  # fmt: skip
"""What a provider may declare, and applies here: no transfers, bundles, decorators, configuration or commands of its own."""


def test_airflow_shows_the_whole_provider(tmp_path):
    """``airflow providers get`` is where an administrator looks up what a package brings."""
    command = [sys.executable, "-m", "airflow", "providers", "get", "airflow-delta-provider", "--full", "-o", "json"]
    environment = os.environ | {"AIRFLOW_HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, timeout=120)
    (shown,) = json.loads(done.stdout[done.stdout.index("[{") :])
    assert set(shown) == KEYS
    assert [name for name in KEYS if not shown[name]] == []


def test_the_information_names_every_module_of_operators_sensors_and_triggers():
    """A module that is not named is in no catalogue."""
    root = Path(str(importlib.import_module("airflow_delta_provider").__file__)).parent
    helpers = {"__init__", "common", "metrics"}
    for kind in ("operators", "sensors", "triggers"):
        (named,) = get_provider_info()[kind]
        modules = {path.stem for path in (root / kind).glob("*.py")} - helpers
        assert {name.rpartition(".")[2] for name in named["python-modules"]} == modules, kind


def test_the_catalogue_of_providers_names_what_there_is():
    """The metadata file at the root is read by machines; a name that is gone breaks their page."""
    form = yaml.safe_load((Path(__file__).parents[2] / ".airflow-registry.yaml").read_text(encoding="utf-8"))
    info = get_provider_info()
    assert (form["package-name"], form["display-name"]) == (info["package-name"], info["name"])
    named = [one["module"] for one in form["operators"] + form["other"]]
    for path in named:
        module, _, name = path.rpartition(".")
        assert getattr(importlib.import_module(module), name).__doc__, path
    (operators,) = info["operators"]
    assert {path.rpartition(".")[0] for path in named if path.endswith("Operator")} == set(operators["python-modules"])
    assert all(one["description"] for one in form["operators"] + form["other"])


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
