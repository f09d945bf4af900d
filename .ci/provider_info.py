"""Check what the package tells Airflow about itself against the schema of the installed Airflow."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import sys
from pathlib import Path

import jsonschema


def main() -> int:
    """Validate the provider information and that everything it names can be found; 0 where all is well."""
    if importlib.util.find_spec("airflow_delta_provider.get_provider_info") is None:
        print("provider info: none yet")
        return 0
    airflow = importlib.util.find_spec("airflow")
    if airflow is None or not airflow.submodule_search_locations:
        print("provider info: Airflow is not installed, so nothing says what it has to look like")
        return 1
    schema = json.loads((Path(airflow.submodule_search_locations[0]) / "provider_info.schema.json").read_text("utf-8"))
    entries = importlib.metadata.entry_points(group="apache_airflow_provider", name="provider_info")
    ours = [entry for entry in entries if entry.value.startswith("airflow_delta_provider.")]
    if len(ours) != 1:
        print(f"provider info: {len(ours)} entry points, 1 wanted")
        return 1
    info = ours[0].load()()
    errors = sorted(jsonschema.Draft7Validator(schema).iter_errors(info), key=lambda error: list(error.path))
    for error in errors:
        print(f"provider info: {'/'.join(map(str, error.path))}: {error.message}")
    if not errors:
        print(f"provider info: {info['package-name']} is valid")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
