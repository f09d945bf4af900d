"""The modules of tests/docs: that folder is no package, and they are programs of their own, so each is loaded by its name."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).resolve().parent / "docs"


def load(name: str) -> ModuleType:
    """Return a module of the folder, loaded once. Raises: FileNotFoundError where there is none."""
    full_name = f"docs_{name}"
    if full_name in sys.modules:
        return sys.modules[full_name]
    found = importlib.util.spec_from_file_location(full_name, FOLDER / f"{name}.py")
    assert found and found.loader
    module = sys.modules[full_name] = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module
