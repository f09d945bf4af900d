"""The pages under docs/ say what the code does: each table is held against it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from docs_modules import load

from airflow_delta_provider.adapters import open as adapters
from airflow_delta_provider.adapters.files import SUFFIXES
from airflow_delta_provider.adapters.filters import parse_filter
from airflow_delta_provider.adapters.side import Column
from airflow_delta_provider.core import spec
from airflow_delta_provider.core.errors import FilterError
from airflow_delta_provider.core.types import SCALARS, LogicalType

ROOT = Path(__file__).resolve().parents[2]


def page(name: str) -> str:
    """Return the text of a page."""
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def cells(name: str, head: str) -> dict[str, list[str]]:
    """Return the table of a page whose head row begins so, by its first column."""
    lines = page(name).split(f"| {head} |", 1)[1].splitlines()[2:]
    rows: dict[str, list[str]] = {}
    for line in lines:
        if not line.startswith("|"):
            break
        first, *rest = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
        rows[first.strip("`")] = rest
    return rows


def test_the_error_index_is_complete_and_current():
    """Whoever looks a code up finds it. After a new class: python tests/docs/index.py."""
    assert page("error-index.md") == load("index").page()


def test_the_error_index_has_one_cause_and_one_remedy_for_each_code():
    """A code that means two things means nothing to a program."""
    kinds = load("index").kinds()
    assert len({kind.code for kind in kinds}) == len(kinds)
    assert [kind.__name__ for kind in kinds if not kind.remedy or not kind.__doc__] == []


def test_every_field_of_a_specification_is_on_its_page():
    """A field that is not written down is found by reading code, or not at all."""
    text = page("specification.md")
    fields = {match.split(".")[0] for match in re.findall(r"^\| `([a-z_.]+)`", text, re.M)}
    assert fields >= spec._FIELDS


def test_the_example_of_a_specification_is_valid_and_complete():
    """The example is what people copy; what it leaves out, they do not find."""
    (block,) = [block for block in load("blocks").blocks_of("docs/specification.md") if block.language == "yaml"]
    form = spec.parse_yaml(block.text.encode(), "docs/specification.md")
    assert spec.parse_spec(form).limits.max_bytes == 20 * 2**30
    assert spec._FIELDS - set(form) == {"csv", "jsonl", "manners", "recheck", "resume", "strategy"}


FILTER_COLUMNS = [
    Column("order_id", LogicalType("int", bits=64), "bigint"),
    Column("status", LogicalType("text"), "text"),
    Column("customer", LogicalType("text"), "text"),
    Column("amount", LogicalType("decimal", precision=12, scale=2), "numeric"),
    Column("cancelled", LogicalType("bool"), "boolean"),
    Column("created_at", LogicalType("timestamp", digits=6), "timestamp"),
]


def filters(note: str) -> list[str]:
    """Return the lines of the block of filters with this note."""
    blocks = load("blocks").blocks_of("docs/filters.md")
    (block,) = [block for block in blocks if block.note == f"filters that are {note}"]
    return str(block.text).splitlines()


@pytest.mark.parametrize("dialect", ["postgresql", "mysql", "sqlite", "duckdb"])
@pytest.mark.parametrize("text", filters("taken"))
def test_a_filter_that_the_page_allows_is_taken_in_every_dialect(text, dialect):
    """The list is a promise."""
    assert parse_filter(text, dialect, FILTER_COLUMNS).columns


@pytest.mark.parametrize("dialect", ["postgresql", "mysql", "sqlite", "duckdb"])
@pytest.mark.parametrize("text", filters("refused"))
def test_a_filter_that_the_page_refuses_is_refused_in_every_dialect(text, dialect):
    """What means different things on two engines must not pass on either."""
    with pytest.raises(FilterError, match="DELTA_FILTER"):
        parse_filter(text, dialect, FILTER_COLUMNS)


def test_every_scheme_and_ending_is_on_the_page_of_engines():
    """An engine that is not on the page does not exist for its reader."""
    text = page("engines.md")
    assert [scheme for scheme in adapters.ENGINES if f"`{scheme}://" not in text] == []
    assert [ending for ending in SUFFIXES if f"`{ending}`" not in text] == []


def test_every_logical_type_is_on_the_page_of_engines():
    """The table is the whole list of what can be compared."""
    types = set(cells("engines.md", "logical type | " + " | ".join(load("served_types").ENGINES)))
    assert {*SCALARS, "array", "struct", "map"} - types == {"json"}


def test_the_types_of_engines_are_those_that_their_sides_name(postgresql_database, mariadb_database, tmp_path):
    """A table of types that nobody runs is wrong after one release. After a change: python tests/docs/served_types.py."""
    made = load("served_types")
    uris = {"PostgreSQL": postgresql_database, "MySQL, MariaDB": mariadb_database}
    assert page("engines.md") == made.page(page("engines.md"), made.table(uris, tmp_path))


def test_the_types_of_row_engines_are_those_of_their_dialects():
    """The table is generated: after a change, python tests/docs/engine_types.py."""
    assert page("engines.md") == load("engine_types").page(page("engines.md"))


def test_every_dependency_has_its_line_and_every_line_its_dependency():
    """A dependency that nobody argued for is a risk that nobody took on purpose."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {re.split(r"[<>=;\[ !]", line)[0] for line in project["dependencies"]}
    extras = {re.split(r"[<>=;\[ !]", line)[0] for lines in project["optional-dependencies"].values() for line in lines}
    text = page("adr/0001-dependencies.md")
    assert set(cells("adr/0001-dependencies.md", "dependency | what it does here | why not without")) == named
    assert {name for name in extras if not name.startswith("apache-airflow") and f"`{name}`" not in text} == set()


@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "adr").glob("*.md")), ids=lambda path: path.stem)
def test_a_decision_ends_in_what_would_violate_it(path):
    """A decision that nothing can violate decides nothing."""
    last = path.read_text(encoding="utf-8").rstrip().splitlines()[-1]
    assert last.startswith("What would violate it: ")
