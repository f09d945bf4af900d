"""``export``: a manifest and its records in another form, the whole of it or nothing."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import BinaryIO

from airflow_delta_provider.cli.files import Write, write_output
from airflow_delta_provider.cli.verify import read_trust
from airflow_delta_provider.core.errors import InputPolicyError
from airflow_delta_provider.core.store import open_store
from airflow_delta_provider.report.material import Material, load_material

WITHOUT_BODY = ("html", "junit")
"""Exports that tell something even where there are no records: under ``detail: counts``, and of a retired body."""


def export(arguments: argparse.Namespace) -> int:
    """Write a manifest in another form. Exit: 0 done."""
    trust = read_trust(arguments.trust)
    if arguments.to == "parquet" and arguments.output in (None, "-") and sys.stdout.isatty():
        raise InputPolicyError("Parquet is no text: give a file with -o.", where="-o")
    material = load_material(open_store(arguments.store), arguments.digest, trust)
    if not material.no_body or arguments.to not in WITHOUT_BODY:
        material.check_body()
    write_output(arguments.output, _writer(material, arguments))
    return 0


def _writer(material: Material, arguments: argparse.Namespace) -> Write:
    """Return what writes the asked form; each module is imported only for its own."""
    writers: dict[str, Callable[[Material, argparse.Namespace, BinaryIO], None]] = {
        "csv": _csv,
        "html": _html,
        "json": _json,
        "jsonl": _jsonl,
        "junit": _junit,
        "parquet": _parquet,
        "sql": _sql,
    }
    return partial(writers[arguments.to], material, arguments)


def _jsonl(material: Material, arguments: argparse.Namespace, file: BinaryIO) -> None:
    with closing(material.open_body()) as body:
        shutil.copyfileobj(body, file)


def _json(material: Material, arguments: argparse.Namespace, file: BinaryIO) -> None:
    file.write(b'{"manifest":' + material.data + b',"records":[')
    for number, line in enumerate(material.lines()):
        file.write((b"," if number else b"") + line)
    file.write(b"]}\n")


def _parquet(material: Material, arguments: argparse.Namespace, file: BinaryIO) -> None:
    from airflow_delta_provider.report.tables import write_parquet

    write_parquet(material, file)


def _csv(material: Material, arguments: argparse.Namespace, file: BinaryIO) -> None:
    from airflow_delta_provider.report.tables import write_csv

    risky = write_csv(material, file, spreadsheet=arguments.spreadsheet)
    if risky and arguments.spreadsheet:
        print(f"{risky} texts have a ' before them that is not in the data.", file=sys.stderr)
    elif risky:
        print(
            f"{risky} texts begin like a formula; open this in a spreadsheet only with --spreadsheet.", file=sys.stderr
        )


def _html(material: Material, arguments: argparse.Namespace, file: BinaryIO) -> None:
    from airflow_delta_provider.report.html import RECORDS_SHOWN, write_html

    write_html(material, file, RECORDS_SHOWN if arguments.records is None else arguments.records)


def _junit(material: Material, arguments: argparse.Namespace, file: BinaryIO) -> None:
    from airflow_delta_provider.report.junit import write_junit

    write_junit(material, file)


def _sql(material: Material, arguments: argparse.Namespace, file: BinaryIO) -> None:
    from airflow_delta_provider.report.sqltext import write_sql

    refused = write_sql(material, file, arguments.table)
    if refused:
        print(f"{refused} records could not be written as statements; each stands as a comment.", file=sys.stderr)
