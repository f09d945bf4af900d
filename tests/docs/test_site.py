"""The site: it builds without a warning, its links lead somewhere, its reference is the code's, its blocks do what they show."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import servers
from docs_modules import load

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
RUN = ("howto/verify-as-an-auditor.md", "howto/ci-with-junit.md", "from-data-diff.md")
"""Pages whose blocks of shell are run in order, each in an empty folder of the page; ``text`` is what the one before prints."""
NOT_RUN = "not run"
PART_OF = "part of "
_LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\((?P<page>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
_HEADING = re.compile(r"^#{1,4} (.+)$", re.M)


blocks = load("blocks")


def name_of(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


def prose_of(page: Path) -> str:
    """Return a page without its blocks and its code: what is left may hold links."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S))


def anchors_of(page: Path) -> set[str]:
    """Return the anchors of the headings of a page, as a viewer of the repository and the site make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    plain = [re.sub(r"[`*]", "", heading.lower()) for heading in _HEADING.findall(text)]
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_of_a_page_leads_somewhere(page):
    """A link that leads nowhere ends the search of whoever follows it."""
    dead = []
    for link in _LINK.finditer(prose_of(page)):
        if "://" in link["page"]:
            continue
        target = (page.parent / link["page"]).resolve() if link["page"] else page
        if not target.exists() or (link["anchor"] and link["anchor"] not in anchors_of(target)):
            dead.append(link[0])
    assert dead == []


def test_every_page_is_in_the_navigation_once():
    """A page that no list names does not exist for its reader."""
    listed = re.findall(r"^- \[[^]]+\]\(([^)]+)\)", (DOCS / "index.md").read_text(encoding="utf-8"), re.M)
    assert sorted(listed) == [name_of(page) for page in PAGES if page.name != "index.md"]


def build(source: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "--nitpicky"]
    return subprocess.run(
        [*command, "--builder", "html", str(source), str(folder)], capture_output=True, text=True, timeout=240
    )


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    """`make docs` is what publishes the site."""
    done = build(DOCS, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    first = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert [name for name in ("tutorial", "howto/sweep", "error-index") if f'href="{name}.html"' not in first] == []


def test_a_link_that_leads_nowhere_fails_the_build(tmp_path):
    """A check that cannot fail checks nothing."""
    shutil.copy(DOCS / "conf.py", tmp_path)
    (tmp_path / "index.md").write_text("# Here\n\n## All\n\n- [There](there.md)\n")
    (tmp_path / "there.md").write_text("# There\n\n[Nowhere](nowhere.md)\n")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert "nowhere" in done.stderr


@pytest.mark.parametrize("name", load("reference").PAGES)
def test_the_reference_is_that_of_the_code(name):
    """After an operator, option or field has changed: python tests/docs/reference.py."""
    written = (DOCS / "reference" / f"{name}.md").read_text(encoding="utf-8")
    assert written == load("reference").page(name)


def test_every_operator_sensor_trigger_and_hook_is_in_the_reference():
    """Whatever Airflow is told of has its parameters written down."""
    import inspect
    from importlib import import_module

    from airflow_delta_provider.get_provider_info import get_provider_info

    info = get_provider_info()
    modules = [
        module for kind in ("operators", "sensors", "triggers", "hooks") for module in info[kind][0]["python-modules"]
    ]
    found = {
        name
        for module in modules
        for name, kind in inspect.getmembers(import_module(module), inspect.isclass)
        if kind.__module__ == module and re.search(r"(Operator|Sensor|Trigger|Hook)$", name)
    }
    text = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    assert found - {"PatchOperator"} - set(re.findall(r"^## (\w+)$", text, re.M)) == set()


def blocks_in(page: Path) -> list[tuple[str, str, str]]:
    return [(one.language, one.text, one.note) for one in blocks.blocks_of(f"docs/{name_of(page)}")]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_is_shown_of_a_file_stands_in_it(page):
    """An excerpt of a Dag that has moved on teaches what does not run."""
    for _, text, note in blocks_in(page):
        if note.startswith(PART_OF):
            assert text in (ROOT / note.removeprefix(PART_OF)).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_that_is_shown_is_one_that_the_command_line_takes(page):
    """An option that is gone, or was never there, costs its reader more than none."""
    from airflow_delta_provider.cli.parser import build_parser

    parser = build_parser()
    for language, text, _ in blocks_in(page):
        if language not in ("sh", "console", ""):
            continue
        for line in re.sub(r"\\\n\s*", " ", text).splitlines():
            found = re.match(r"^(?:\$ )?\s*(?:record=\$\()?airflow-delta (.*)$", line)
            if not found:
                continue
            plain = re.sub(r'"\$\([^)]*\)"', "DIGEST", found[1]).split("#")[0]
            words = shlex.split(re.split(r" (?:>|\|\||\||;|&&) ?", plain)[0].replace("...", ""))
            try:
                parser.parse_args(words)
            except SystemExit:
                raise AssertionError(line) from None


@pytest.mark.parametrize("page", [page for page in PAGES if "howto" in page.parts], ids=name_of)
def test_every_dag_that_is_shown_can_be_loaded(page, tmp_path, monkeypatch):
    """Imports, arguments and the graph are those of today; what they run is tested where they are at home."""
    shutil.copy(ROOT / "dags" / "orders.yaml", tmp_path)
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    for number, (language, text, note) in enumerate(blocks_in(page)):
        if language == "python" and not note:
            code = compile(text, f"block {number}", "exec")
            exec(code, {"__name__": f"dag_{number}"})  # noqa: S102 - a block of our own page


@pytest.mark.parametrize("name", RUN)
def test_a_page_of_commands_does_what_it_shows(name, tmp_path):
    """In order, in one empty folder, as its reader types it."""
    for program in ("bash", "openssl", "jq"):
        servers.require_program(program)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    printed, compared = None, 0
    for block in blocks.blocks_of(f"docs/{name}"):
        if block.language == "sh" and block.note != NOT_RUN:
            done = subprocess.run(
                ["bash", "-u", "-c", block.text], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
            )  # fmt: skip
            assert done.returncode in (0, 1), done.stderr
            printed = done.stdout
        elif block.language == "text" and printed is not None:
            assert re.sub(r"(?m)^manifest  [0-9a-f]{64}\n", "", printed) == block.text
            compared += 1
    assert compared == 1
