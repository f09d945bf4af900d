"""A process of our own starts without pandas, which pyarrow looks for whenever it is given a Python list."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _NoPandas(MetaPathFinder):
    """Says that pandas is not installed: half a second and 60 MB for a question whose answer is always no."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuse pandas, know nothing of any other module."""
        if fullname == "pandas":
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


def keep_pandas_out() -> None:
    """Let imports of pandas fail in this process from now on. Only for processes that run nothing but this package."""
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NoPandas())


def pandas_kept_out() -> bool:
    """Tell whether this process does so; its worker processes then do too."""
    return any(isinstance(finder, _NoPandas) for finder in sys.meta_path)
