"""``python -m airflow_delta_provider.demo``: from nothing to a verified manifest, or with ``--ui`` to a running Airflow."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from airflow_delta_provider.core.store import open_store
from airflow_delta_provider.core.verify_store import EXIT_CODES
from airflow_delta_provider.demo import flights, host, servers, told

DATABASE = "flights"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo. Exit: 0 the manifest is published and verified, 1 it is not."""
    parser = argparse.ArgumentParser(prog="python -m airflow_delta_provider.demo", description=__doc__)
    parser.add_argument("--folder", default=".demo", help="where store, key, target and Airflow's home lie (.demo)")
    parser.add_argument("--ui", action="store_true", help="run under `airflow standalone`, until Ctrl-C")
    arguments = parser.parse_args(argv)
    folder = Path(arguments.folder)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _demo(folder, with_ui=arguments.ui)
    except (host.DemoFailed, servers.ServerFailed, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _demo(folder: Path, *, with_ui: bool) -> int:
    started = time.monotonic()

    def step(text: str) -> None:
        print(f"[{time.monotonic() - started:5.1f} s] {text}", flush=True)

    home = folder.resolve() / "airflow"
    with ThreadPoolExecutor(1) as aside:
        # Airflow takes a while to make its metadata database: meanwhile the data is loaded. Standalone makes its own.
        migrated = None if with_ui else aside.submit(host.make_host(home, {}).run, "db", "migrate")
        step("PostgreSQL starts, on a port of its own")
        with servers.postgresql() as server:
            uri = server.create_database(DATABASE)
            step(f"source: {flights.load_source(uri):,} flights in PostgreSQL")
            rows = flights.migrate(uri, folder / "target.duckdb", folder)
            step(f"target: {rows:,} flights in DuckDB, after a migration with {len(flights.FAULTS)} faults")
            airflow = host.make_host(home, _connections(folder.resolve(), server))
            if migrated is None:
                return _with_ui(folder, airflow, step)
            migrated.result()
            step(f"Airflow runs the Dag {host.DAG_ID}, its log in {folder / 'airflow' / 'demo.log'}")
            host.run_dag(airflow)
            step("the Dag run has ended")
    return _tell(folder)


def _with_ui(folder: Path, airflow: host.Host, step: Any) -> int:
    step("airflow standalone starts")
    with host.standalone(airflow) as address:
        step(f"Airflow runs the Dag {host.DAG_ID}")
        run_id = host.trigger(airflow, address)
        step("the Dag run has ended")
        code = _tell(folder)
        print(f"address    {address}/dags/{host.DAG_ID}/runs/{run_id}")
        print(f"login      {host.USER}, password {host.password(airflow)}")
        print("Ctrl-C stops Airflow and PostgreSQL.", flush=True)
        with suppress(KeyboardInterrupt):
            while True:
                signal.pause()
    return code


def _tell(folder: Path) -> int:
    digest = told.newest_manifest(open_store(str(folder / "store")))
    check = told.verified(folder, digest)
    print()
    for line in told.lines(folder, digest, check):
        print(line)
    print(f"report     {told.report(folder, digest)}", flush=True)
    return 1 if EXIT_CODES[check.verdict] else 0


def _connections(folder: Path, server: servers.Server) -> dict[str, dict[str, Any]]:
    """Return the connections of the demo's Dag, by id."""
    return {
        "flights_source": {
            "conn_type": "postgres",
            "host": server.host,
            "port": server.port,
            "login": server.user,
            "password": server.password,
            "schema": DATABASE,
        },
        "flights_target": {"conn_type": "duckdb", "host": str(folder / "target.duckdb")},
        "delta_store_default": {
            "conn_type": "delta_store",
            "host": str(folder / "store"),
            "extra": {"trust": str(folder / "public.pem")},
        },
        "delta_signer_default": {"conn_type": "delta_signer", "password": _private_key(folder)},
    }


def _private_key(folder: Path) -> str:
    """Return the demo's Ed25519 key in PEM; it and its public half are made once."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private, public = folder / "private.pem", folder / "public.pem"
    if not private.exists():
        key = Ed25519PrivateKey.generate()
        pem = serialization.Encoding.PEM
        public.write_bytes(key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo))
        form = serialization.PrivateFormat.PKCS8
        text = key.private_bytes(pem, form, serialization.NoEncryption())
        with open(os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123
            file.write(text)
    return private.read_text(encoding="ascii")


if __name__ == "__main__":
    sys.exit(main())
