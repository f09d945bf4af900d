"""Each line of the threat model names a test that exists, and each code it names is one of ours."""

import re
from pathlib import Path

import airflow_delta_provider.core.errors as errors
from airflow_delta_provider.core.errors import DeltaError

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
ROWS = [line.split("|")[1:-1] for line in PAGE.split("| attack |")[1].splitlines()[2:] if line.startswith("|")]


def test_every_attack_names_a_test_that_exists():
    """A claim without its test is a hope."""
    assert len(ROWS) > 25
    for _, _, test in ROWS:
        file, *name = test.split()
        text = (ROOT / "tests" / file).read_text(encoding="utf-8")
        assert not name or f"def {name[0]}(" in text, test


def test_every_code_is_one_that_the_package_raises():
    """The page is read next to a finding."""
    known = {kind.code for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, DeltaError)}
    assert set(re.findall(r"DELTA_[A-Z_]+", PAGE)) <= known
