"""A manifest as JUnit XML, which every continuous integration shows: one test case for each column and category."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO
from xml.sax.saxutils import quoteattr

from airflow_delta_provider.report.material import Material

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

Case = tuple[str, str, str]
"""Class name, test name, and why it failed (empty where it passed)."""


def cases_of(material: Material) -> list[Case]:
    """Return the test cases: categories first, then columns; sets of rows that were left out are no failures."""
    return [*_categories(material), *_columns(material)]


def _categories(material: Material) -> Iterator[Case]:
    said = {"added": "only in the target", "dropped": "only in the source", "value_diverged": "with other values"}
    for name, part in material.manifest["categories"].items():
        count = part["records"]
        yield "categories", name, f"{count} rows {said[name]}" if count else ""


def _columns(material: Material) -> Iterator[Case]:
    for name, diverged, _ in material.summary["columns"]:
        yield "columns", name, f"{diverged} rows have another value" if diverged else ""


def write_junit(material: Material, file: BinaryIO) -> None:
    """Write the test cases. The same manifest gives the same bytes: there is no time and no host in them."""
    pair, found = material.manifest["pair"], cases_of(material)
    failures = sum(bool(problem) for _, _, problem in found)
    counts = f'tests="{len(found)}" failures="{failures}" errors="0" skipped="0"'
    name = _attribute(pair["name"])
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<testsuites name={name} {counts}>",
        f"  <testsuite name={name} {counts}>",
        "    <properties>",
        *(f"      <property name={_attribute(n)} value={_attribute(v)}/>" for n, v in _properties(material)),
        "    </properties>",
    ]
    for kind, case, problem in found:
        head = f"    <testcase classname={_attribute(pair['name'] + '.' + kind)} name={_attribute(case)}"
        lines.append(f"{head}/>" if not problem else f"{head}>")
        if problem:
            lines.append(f"      <failure type={_attribute('discrepancy')} message={_attribute(problem)}/>")
            lines.append("    </testcase>")
    lines += ["  </testsuite>", "</testsuites>", ""]
    file.write("\n".join(lines).encode())


def _properties(material: Material) -> Iterator[tuple[str, str]]:
    manifest = material.manifest
    yield "manifest", material.manifest_id
    yield "source", manifest["pair"]["source"]
    yield "target", manifest["pair"]["target"]
    yield "unchanged", str(manifest["population"]["unchanged"])
    for bound, key in manifest["key_range"].items():
        if key is not None:
            yield f"key_range.{bound}", key
    for side in ("source", "target"):
        for member, count in manifest["population"][side].items():
            yield f"{side}.{member}", str(count)
    for finding in material.structure["findings"]:
        types = f"{finding['source_type']} -> {finding['target_type']}"
        yield f"schema.{finding['kind']}", f"{finding['column']}: {types}"


def _attribute(text: str) -> str:
    """Return a quoted attribute; characters that XML cannot hold are written out."""
    visible = _NOT_XML.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return quoteattr(visible, {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
