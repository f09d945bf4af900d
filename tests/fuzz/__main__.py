"""Coverage-guided fuzzing of one target, or of all in turn: ``make fuzz`` (Atheris; not part of any other target)."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SECONDS = 60


def one(name: str, seconds: int) -> None:
    """Fuzz one target in this process; a defect ends it with a traceback and the input that shows it."""
    import atheris

    sys.path.insert(0, str(HERE.parent))
    with atheris.instrument_imports(include=["airflow_delta_provider"]):
        import fuzz_targets as targets

    with tempfile.TemporaryDirectory() as fresh:  # what is found new goes there, and not among the seeds
        options = [f"-max_total_time={seconds}", "-timeout=10", "-rss_limit_mb=2048", "-max_len=65536"]
        atheris.Setup([name, *options, fresh, str(HERE / "corpus" / name)], lambda data: targets.run(name, data))
        atheris.Fuzz()


def main() -> int:
    """``python tests/fuzz [TARGET [SECONDS]]``."""
    sys.path.insert(0, str(HERE.parent))
    words = sys.argv[1:]
    seconds = int(words[1]) if len(words) > 1 else SECONDS
    if words and words[0] != "all":
        one(words[0], seconds)
        return 0
    names = sorted(folder.name for folder in (HERE / "corpus").iterdir())
    failed = [name for name in names if subprocess.run([sys.executable, str(HERE), name, str(seconds)]).returncode]
    print(f"{len(names) - len(failed)} passed, {len(failed)} failed")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
