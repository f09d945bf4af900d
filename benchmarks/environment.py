"""Environments of other tools: made on request, each with what it needs and nothing of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REQUIRES = {
    "polars": ("polars", "pyarrow"),
    "datacompy": ("datacompy", "polars", "pyarrow"),
    "reladiff": ("reladiff", "psycopg2-binary", "mysql-connector-python", "tzdata"),
}
"""What each tool needs besides Python; ``duckdb-join`` runs in our own environment."""
INSTALL_TIMEOUT_S = 600


def python_of(peer: str, root: Path, *, install: bool) -> Path | None:
    """Return the interpreter that has a tool, or None where it is not installed and is not to be."""
    if peer == "duckdb-join":
        return Path(sys.executable)
    tool = peer.partition("-")[0]
    folder = root / tool
    python, ready = folder / "bin" / "python", folder / "ready"
    if ready.exists():
        return python
    if not install:
        return None
    try:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, timeout=INSTALL_TIMEOUT_S)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIRES[tool]]
        subprocess.run(command, check=True, timeout=INSTALL_TIMEOUT_S)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired, OSError) as error:
        print(f"{tool} could not be installed: {error}", file=sys.stderr)
        return None
    ready.touch()
    return python
