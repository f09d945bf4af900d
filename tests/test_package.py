"""The wheel and the source archive: the same bytes twice, and an Airflow that knows the provider once the wheel is in."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly
ROOT = Path(__file__).parents[1]
EPOCH = "1767225600"
BUILD_TIMEOUT_S = 300
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "site")


def built(folder: Path, touched_s: int) -> dict[str, str]:
    """Build from a copy of the sources whose files were all changed at one time; return file names and digests."""
    shutil.copytree(ROOT, folder / "src", ignore=LEFT_OUT)
    shutil.copy(ROOT / ".gitignore", folder / "src")
    for path in sorted((folder / "src").rglob("*")):
        os.utime(path, (touched_s, touched_s))
    environment = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH, "PYTHONHASHSEED": str(touched_s % 1000)}
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder / "out")]
    subprocess.run(command, cwd=folder / "src", env=environment, check=True, timeout=BUILD_TIMEOUT_S)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted((folder / "out").iterdir())}


def run(python: Path, *arguments: str, home: Path) -> str:
    """Run the interpreter of a virtual environment, away from the sources; return what it prints."""
    hidden = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "AIRFLOW"))}
    environment = {**hidden, "AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    done = subprocess.run(
        [str(python), *arguments], cwd=home, env=environment, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_two_builds_have_the_same_bytes(tmp_path):
    """Whoever doubts what was published builds it, at another time and in another folder, and compares."""
    first, second = built(tmp_path / "a", 1_700_000_000), built(tmp_path / "another", 1_800_000_001)
    assert first == second
    assert sorted(Path(name).suffix for name in first) == [".gz", ".whl"]


def test_the_wheel_goes_into_a_bare_airflow(tmp_path):
    """An environment of its own sees Airflow's packages and this wheel, and none of the sources."""
    built(tmp_path, 1_700_000_000)
    (wheel,) = (tmp_path / "out").glob("*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    python, home = tmp_path / "venv" / "bin" / "python", tmp_path / "home"
    home.mkdir()
    own = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", home=home).strip())
    install = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", str(wheel)]
    run(python, *install, home=home)
    (own / "airflow.pth").write_text(sysconfig.get_path("purelib") + "\n")  # a plain line: editable installs stay out
    place = run(python, "-c", "import airflow_delta_provider as found; print(found.__file__)", home=home).strip()
    assert Path(place).is_relative_to(own)
    assert "airflow-delta-provider" in run(python, "-m", "airflow", "providers", "list", home=home)
    assert "run" in run(python, str(python.parent / "airflow-delta"), "--help", home=home)
    operators = "from airflow_delta_provider.task_groups import reconcile; print(reconcile.__name__)"
    assert run(python, "-c", operators, home=home).strip().endswith("reconcile")
