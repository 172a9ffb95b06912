"""README and docs -> what they name exists: links, commands, options, files, tests, modules, names of the API, promises, behaviour ids."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import click
import pytest

import omnigraph
from omnigraph import errors
from omnigraph.cli.main import cli
from omnigraph.cli.scope import Flags
from omnigraph.errors import Kind
from omnigraph.exec.problems import ProblemCode
from scripts import behaviours

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "omnigraph"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
INDEX = ROOT / "docs" / "index.md"
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
BEHAVIOUR = re.compile(r"\b(?:FF|MR|NZ|REC|RT|[ABCDFGKLMOPSTVWXYZ])-\d\d\b")
PROMISE = re.compile(r"\bINV-\d+\b")
ABSENT = ("cleanup", "repair")
"""Commands that are planned. A page may name one when `omnigraph` has it."""

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text("utf-8"))


def shell(page: Path) -> Iterator[str]:
    """Every command line that a page shows, in a block or between backticks."""
    yield from lines_of_blocks(page)
    yield from (code for code in CODE.findall(prose(page).replace("\n", " ")) if code.startswith("omnigraph "))


def lines_of_blocks(page: Path) -> Iterator[str]:
    for block in FENCE.findall(page.read_text("utf-8")):
        prompt = r"\$ " if re.search(r"^\$ ", block, re.MULTILINE) else ""
        lines = re.findall(rf"^{prompt}(?:[A-Z_]+=\S+ )?(omnigraph .*)", block, re.MULTILINE)
        yield from (re.split(r" +# | \|\| | > ", line)[0] for line in lines)


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)", FENCE.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def command_of(line: str) -> tuple[click.Command, list[str]]:
    """The command that a line calls, and the words behind its name."""
    command: click.Command = cli
    words = line.split()[1:]
    while words and isinstance(command, click.Group) and words[0].islower() and words[0][0].isalpha():
        assert words[0] in command.commands, f"there is no `{line}`"
        command = command.commands[words.pop(0)]
    return command, words


def options(command: click.Command) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts if option.startswith("-")}


def commands(group: click.Group = cli, prefix: str = "omnigraph") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}", command


def cited(folder: str, pattern: re.Pattern[str]) -> set[str]:
    files = [path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".gqt", ".pgt") and path != Path(__file__)]
    return {found for path in files for found in pattern.findall(path.read_text("utf-8"))}


@every_page
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in link:
            continue
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_is_on_the_map() -> None:
    linked = {(INDEX.parent / link).resolve() for link in re.findall(r"\]\(([^)#\s]+)", INDEX.read_text("utf-8"))}
    assert [page.name for page in PAGES if page != INDEX and page not in linked] == []
    assert "(docs/index.md)" in (ROOT / "README.md").read_text("utf-8")


@every_page
def test_every_command_and_option_exists(page: Path) -> None:
    for line in shell(page):
        command, words = command_of(re.sub(r"'[^']*'", "TEXT", line))
        known = options(command) | options(cli) | {"--help", "-h"}
        given = [word for written in words if (word := written.strip("[]()|.,").partition("=")[0]).startswith("-") and word != "-"]
        assert set(given) <= known, line


@every_page
def test_every_command_line_of_a_block_parses(page: Path) -> None:
    for line in lines_of_blocks(page):
        command, words = command_of(line)
        names = len(line.split()) - len(words)
        command.make_context(line, shlex.split(line)[names:], obj=Flags())


@every_page
def test_every_block_of_python_parses_and_imports_what_exists(page: Path) -> None:
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "omnigraph":
                module = importlib.import_module(str(node.module))
                known = {*getattr(module, "__all__", ()), *vars(module)}
                assert [alias.name for alias in node.names if alias.name not in known] == []


def test_every_kind_of_error_is_listed_with_the_classes_that_have_it() -> None:
    rows = re.findall(r"^- `(\w+)` \(([A-Z][\w, ]+)\): ", (ROOT / "docs/user/errors.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(kind for kind, _ in rows) == sorted(Kind)
    listed = {kind: set(classes.split(", ")) for kind, classes in rows}
    assert [name for classes in listed.values() for name in classes if not hasattr(omnigraph, name)] == []
    raised = [found for path in SOURCE.rglob("*.py") for found in _raised(path.read_text("utf-8"))]
    assert len(raised) > 100
    assert [(kind, name) for kind, name in raised if hasattr(errors, name) and name not in listed[kind]] == []


def _raised(source: str) -> Iterator[tuple[str, str]]:
    """Every kind that a source passes to the constructor of an error, with the name of that class."""
    for call in re.finditer(r"\b([A-Z]\w+)\(\s*Kind\.([A-Z_]+)\b", source):
        yield Kind[call[2]].value, call[1]


@pytest.mark.parametrize("code", list(ProblemCode))
def test_every_code_of_a_problem_is_listed(code: str) -> None:
    pages = "".join((ROOT / "docs/user" / name).read_text("utf-8") for name in ("load.md", "validation.md"))
    assert re.search(rf"^\|[^|]*`{code}`", pages, re.MULTILINE)


@every_page
def test_no_page_names_a_command_that_is_planned(page: Path) -> None:
    absent = [name for name in ABSENT if name not in cli.commands]
    assert [code for code in CODE.findall(prose(page)) if code in absent] == []


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=[name for name, _ in commands()])
def test_every_command_and_option_is_in_the_reference(name: str, command: click.Command) -> None:
    """A command by its whole name, an option by each of its spellings, as words of their own: `--out` is not `--output`."""
    reference = (ROOT / "docs/user/cli.md").read_text("utf-8")
    section = reference.partition(f"## `{' '.join(name.split()[:2])}`")[2].partition("\n## ")[0]
    assert _says(name, section) or name.count(" ") == 1, "the heading of a section names its command"
    shared = reference.partition("## `omnigraph init`")[0]
    own = [parameter for parameter in command.params if isinstance(parameter, click.Option) and not parameter.hidden]
    spellings = [spelling for option in own for spelling in (*option.opts, *option.secondary_opts)]
    assert [spelling for spelling in spellings if not _says(spelling, section) and not _says(spelling, shared)] == []


def _says(words: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(words)}(?![\w-])", text) is not None


@every_page
def test_every_file_and_test_exists(page: Path) -> None:
    bases = (ROOT, SOURCE, page.parent, *(folder for folder in SOURCE.iterdir() if folder.is_dir()), *(ROOT / "tests").iterdir())
    path = re.compile(r"[\w./]+\.(?:py|sh|c|md)|(?:tests|src|bench|scripts)/[\w./]*")
    named = {code for code in CODE.findall(prose(page)) if path.fullmatch(code)}
    shown = "".join(FENCE.findall(page.read_text("utf-8")))  # a file that the reader makes
    for name in sorted(named):
        found = any((base / name).exists() for base in bases) or name in shown
        found = found or ("/" not in name and any(ROOT.glob(f"[best]*/**/{name}")))
        assert found, name
    tests = set(re.findall(r"`(test_\w+)`", prose(page))) - {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    written = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py")) if tests else ""
    assert [name for name in sorted(tests) if f"def {name}(" not in written] == []


@every_page
def test_every_module_and_name_of_the_api_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    for module in re.findall(r"python -m ([\w.]+)", text):
        assert find_spec(module) is not None, module
    assert [name for name in re.findall(r"\bog\.(\w+)", text) if not hasattr(omnigraph, name)] == []
    attributes = {*dir(omnigraph.Graph), "branches"}
    assert [name for name in re.findall(r"(?<![\w.$/])g\.(\w+)\(", text) if name not in attributes] == []


def test_every_promise_is_cited_by_a_test() -> None:
    listed = set(PROMISE.findall(re.sub(r"`[^`]*`", "", (ROOT / "docs/dev/invariants.md").read_text("utf-8"))))
    assert len(listed) >= 12, "the page has another form now"
    assert listed - cited("tests", PROMISE) == set()
    assert cited("tests", PROMISE) | cited("src", PROMISE) <= listed


def test_every_behaviour_is_defined_once_by_a_test() -> None:
    """Also those that only the source cites."""
    defined = [one.id for one in behaviours.behaviours()]
    assert len(defined) > 200
    assert [one for one, times in Counter(defined).items() if times > 1] == []
    assert sorted(behaviours.cited() - set(defined)) == []


def test_the_page_of_behaviours_is_current() -> None:
    is_current = behaviours.PAGE.read_text("utf-8") == behaviours.page()  # a difference of whole pages would hide the rest of a report
    assert is_current, "run python -m scripts.behaviours"


def test_every_dependency_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    names = {re.split(r"[\[<>=]", one)[0] for one in wanted} - {"omnigraph"}
    page = (ROOT / "docs/design/dependencies.md").read_text("utf-8")
    assert [name for name in sorted(names) if not re.search(rf"\b{re.escape(name)}\b", page)] == []


def test_facts_about_lance_are_on_their_own_page() -> None:
    facts = set(BEHAVIOUR.findall((ROOT / "docs/dev/substrate.md").read_text("utf-8")))
    assert {found for folder in ("src", "tests") for found in cited(folder, BEHAVIOUR) if found.startswith("P-")} <= facts


def test_every_function_of_the_walks_exists() -> None:
    """A row names a module and functions or methods of it: `manifest/read.py` `Manifest.snapshot`."""
    rows = re.findall(r"^ *- (.*?): ", (ROOT / "docs/dev/walks.md").read_text("utf-8"), re.MULTILINE)
    assert len(rows) > 50
    for row in rows:
        module = ""
        for code in CODE.findall(row):
            if code.endswith(".py"):
                module = (SOURCE / code).read_text("utf-8")
                continue
            for name in code.split("."):
                assert re.search(rf"^\s*(?:(?:class|def) {name}\b|from .*\b{name}\b)", module, re.MULTILINE), f"{row}: {code}"
