"""Every page refers to modules, tests, targets and sections that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("deploy/**/*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
PATH = re.compile(r"`((?:streamproc|tests|deploy|docs|bench|experiments)/[\w./-]+)`")
GENERATED = {"experiments/out/"}
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """Return the anchors that the headings of a page have on the sites that show it."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_paths_on_a_page_exist(page: Path) -> None:
    missing = [path for path in PATH.findall(page.read_text()) if path not in GENERATED and not (ROOT / path).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_of_a_page_lead_to_files_and_sections_that_exist(page: Path) -> None:
    dead = []
    for link in LINK.findall(page.read_text()):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    assert dead == []


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_make_targets_on_a_page_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    named = set(re.findall(r"`make ([a-z-]+)", page.read_text()))
    assert named <= targets


def test_the_architecture_page_names_every_package_and_every_module_it_names_exists() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    layers = page.partition("## Layers")[2].partition("## The way of one report")[0]
    packages = {path.name for path in (ROOT / "streamproc").iterdir() if (path / "__init__.py").exists()}
    assert {name for name in packages if f"`{name}`" not in layers} == set()
    modules = re.findall(r"`((?:" + "|".join(sorted(packages)) + r")/[\w/]+\.py)`", page)
    assert len(modules) > 30
    assert [module for module in modules if not (ROOT / "streamproc" / module).exists()] == []
