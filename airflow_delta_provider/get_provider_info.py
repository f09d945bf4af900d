"""What this package tells Airflow about itself; Airflow reads it on every start, so it imports next to nothing."""

from __future__ import annotations

from typing import Any

from airflow_delta_provider import __version__

_TEXT = {"type": ["string", "null"], "default": None}
_NAME = "Delta manifests"


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description, in the form of Airflow's ``provider_info.schema.json``."""
    package = "airflow_delta_provider"
    return {
        "package-name": "airflow-delta-provider",
        "name": _NAME,
        "description": "Sharded data reconciliation: signed, byte-reproducible delta manifests.",
        "versions": [__version__],
        "integrations": [
            {
                "integration-name": _NAME,
                "external-doc-url": "https://pypi.org/project/airflow-delta-provider/",
                "tags": ["software"],
            }
        ],
        "operators": [
            {
                "integration-name": _NAME,
                "python-modules": [
                    f"{package}.operators.{name}" for name in ("shards", "manifests", "sweeps", "patches", "approvals")
                ],
            }
        ],
        "hooks": [{"integration-name": _NAME, "python-modules": [f"{package}.hooks.store", f"{package}.hooks.signer"]}],
        "sensors": [
            {
                "integration-name": _NAME,
                "python-modules": [
                    f"{package}.sensors.manifest",
                    f"{package}.sensors.migration",
                    f"{package}.sensors.replica",
                ],
            }
        ],
        "triggers": [
            {
                "integration-name": _NAME,
                "python-modules": [
                    f"{package}.triggers.manifest",
                    f"{package}.triggers.migration",
                    f"{package}.triggers.replica",
                ],
            }
        ],
        "notifications": [f"{package}.notifications.manifest.ManifestNotifier"],
        "asset-uris": [
            {
                "schemes": ["delta-manifest"],
                "handler": f"{package}.assets.sanitize_uri",
                "factory": f"{package}.assets.create_asset",
                "to_openlineage_converter": f"{package}.assets.convert_asset_to_openlineage",
            }
        ],
        "extra-links": [f"{package}.links.ManifestLink"],
        "plugins": [{"name": "delta_ui", "plugin-class": f"{package}.plugins.ui.DeltaUIPlugin"}],
        "connection-types": [
            {
                "connection-type": "delta_store",
                "hook-class-name": f"{package}.hooks.store.DeltaStoreHook",
                "hook-name": "Delta store",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "port"],
                    "relabeling": {
                        "host": "Address",
                        "login": "Access key or account",
                        "password": "Secret or account key",
                    },
                    "placeholders": {"host": "file:///srv/deltas", "extra": '{"region": "eu-central-1"}'},
                },
                "conn-fields": {
                    "trust": {
                        "label": "Trust document",
                        "description": "File with the trust document, or with one public key in PEM.",
                        "schema": _TEXT,
                    }
                },
            },
            {
                "connection-type": "delta_signer",
                "hook-class-name": f"{package}.hooks.signer.DeltaSignerHook",
                "hook-name": "Delta signer",
                "ui-field-behaviour": {
                    "hidden-fields": ["schema", "login", "port"],
                    "relabeling": {"host": "Key in a service", "password": "Private key (PEM)"},
                    "placeholders": {"host": "awskms:alias/deltas", "password": "-----BEGIN PRIVATE KEY-----\\n..."},
                },
                "conn-fields": {
                    "private_key": {
                        "label": "Private key (PEM, several lines)",
                        "description": "Instead of the password, which holds one line.",
                        "schema": {**_TEXT, "format": "multiline"},
                    },
                    "passphrase": {
                        "label": "Passphrase",
                        "description": "Where the private key is under one.",
                        "schema": {**_TEXT, "format": "password"},
                    },
                },
            },
        ],
    }
