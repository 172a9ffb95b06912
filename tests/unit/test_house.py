"""The source tree stays within its limits, and the page on architecture names every package."""

from __future__ import annotations

from pathlib import Path

from scripts.house import PACKAGE, SHARED, House, measure, read

PAGE = Path(__file__).resolve().parents[2] / "docs/dev/architecture.md"


def house() -> House:
    return measure(read())


def test_no_limit_is_broken() -> None:
    found = house()
    assert found.broken == (), (found.single_importer, found.cycles, found.undocumented)


def test_a_cycle_is_found_also_when_an_import_is_lazy_or_for_types_only(tmp_path: Path) -> None:
    package = tmp_path / PACKAGE
    package.mkdir()
    (package / "__init__.py").write_text('"""A package."""\n')
    (package / "a.py").write_text(f'"""A."""\ndef f():\n    from {PACKAGE} import b\n')
    (package / "b.py").write_text(f'"""B."""\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from {PACKAGE}.a import f\n')
    found = measure(read(tmp_path))
    assert found.cycles == ((f"{PACKAGE}.a", f"{PACKAGE}.b"),)
    assert found.broken == ("1 import cycles",)


def test_a_class_name_that_stands_in_two_modules_is_found(tmp_path: Path) -> None:
    package = tmp_path / PACKAGE
    package.mkdir()
    (package / "__init__.py").write_text('"""A package."""\n')
    (package / "a.py").write_text('"""A."""\nclass Thing:\n    class Inner: pass\nclass Inner: pass\n')
    (package / "b.py").write_text('"""B."""\nclass Thing: pass\n')
    assert measure(read(tmp_path)).broken == (f"class Thing stands in {PACKAGE}.a, {PACKAGE}.b",)


def test_every_name_that_may_be_shared_is_shared() -> None:
    assert set(SHARED) - house().repeated.keys() == set()


def test_the_page_on_architecture_names_every_package() -> None:
    page = PAGE.read_text()
    packages = [module.name for module in read().values() if module.is_package]
    assert [name for name in packages if f"`{name}`" not in page] == []
