"""A manifest as a file to keep: written whole first, so that nothing of a damaged body is ever sent."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from typing import Any, BinaryIO

from airflow_delta_provider.core.errors import InputPolicyError, shown
from airflow_delta_provider.report.material import Material
from airflow_delta_provider.web.answers import Answer

CHUNK_BYTES = 2**16
MEMORY_BYTES_MAX = 2**22
MEDIA = {
    "csv": "text/csv; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "jsonl": "application/x-ndjson",
    "sql": "text/plain; charset=utf-8",
}
POLICY = "default-src 'none'; frame-ancestors 'none'; sandbox"


def download(material: Material, form: str) -> Answer:
    """Return a manifest in one of the forms of MEDIA, to be saved.

    Raises: InputPolicyError for another form; BodyDigestError, StoreRetiredError, and what the export raises.
    """
    if form not in MEDIA:
        raise InputPolicyError(f"{shown(form)!r} is none of {', '.join(MEDIA)}.", where="to")
    if not material.no_body or form != "html":
        material.check_body()
    file: Any = tempfile.SpooledTemporaryFile(MEMORY_BYTES_MAX)  # noqa: SIM115 - the answer closes it
    _write(material, form, file)
    size = file.tell()
    file.seek(0)
    name = f"{material.manifest_id[:16]}.{form}"
    headers = {
        "Content-Disposition": f'attachment; filename="delta-{name}"',
        "Content-Length": str(size),
        "Content-Security-Policy": POLICY,
    }
    return Answer(_chunks(file), MEDIA[form], headers=headers)


def _write(material: Material, form: str, file: BinaryIO) -> None:
    if form == "jsonl":
        with closing(material.open_body()) as body:
            shutil.copyfileobj(body, file)
    elif form == "csv":
        from airflow_delta_provider.report.tables import write_csv

        write_csv(material, file)
    elif form == "html":
        from airflow_delta_provider.report.html import write_html

        write_html(material, file)
    else:
        from airflow_delta_provider.report.sqltext import write_sql

        write_sql(material, file, None)


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    with closing(file):
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
