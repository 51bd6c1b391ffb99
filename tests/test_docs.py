"""Pages are in one order, and their links and paths lead somewhere."""

import builtins
import inspect
import json
import re
import subprocess
import tomllib
import urllib.parse

import pytest
import yaml
from documented import NAMES, PAGES, ROOT, blocks, spans

from docs import reference
from pike_mixing import METHODS
from pike_mixing.rules import surgery
from pipeline.planning import planner

FOLDERS = "|".join(
    ("benchmarks", "docs", "examples", "pike_mixing", "pipeline", "tests", "workflow")
)


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_and_paths_exist(page):
    text = page.read_text(encoding="utf-8")
    for path, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", text):
        if path.startswith("http"):
            place = urllib.parse.urlsplit(path)
            assert (place.scheme, place.query) == ("https", ""), path
            assert re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+)+", place.netloc), path
        else:
            target = page.parent / path if path else page
            assert target.exists(), path
            assert not anchor or anchor in anchors(target), f"{path}#{anchor}"
    for path in re.findall(rf"`((?:{FOLDERS})/[\w./-]+)`", text):
        assert (ROOT / path).exists(), path


def test_pages_call_and_import_what_is_there():
    folders = ("benchmarks", "examples", "pike_mixing", "pipeline")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    exported = ROOT / "pike_mixing" / "mixtures" / "mixture_module.txt"
    code = [path.read_text(encoding="utf-8") for path in [*paths, exported]]
    code += [block for name in NAMES for block in blocks(name, "python")]
    found = re.findall(r"^ *(?:def|class) (\w+)|^(\w+)(?:: .+)? = ", "\n".join(code), re.MULTILINE)
    known = {name for pair in found for name in pair} | {path.stem for path in paths}
    # Of Python and other packages.
    known |= {*dir(builtins), "DataLoader", "Trainer", "load_dataset", "get_device_name"}
    known |= {"exp", "pop", "prepare", "random", "repeat"}
    imported = re.compile(r"^\W*from (?:pike_mixing|pipeline)\S* import (.+)", re.MULTILINE)
    for name in {*NAMES} - {*reference.PAGES}:
        used = {word for span in spans(name) for word in re.findall(r"(\w+)\(", span)}
        for names in imported.findall((ROOT / name).read_text(encoding="utf-8")):
            used |= set(re.findall(r"\w+", names.partition("#")[0]))
        assert used <= known, f"{name}: {used - known}"


def test_the_tree_of_the_page_is_the_tree():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tree = text.partition("## The tree")[2].partition("## ")[0]
    named = set(re.findall(r"^\| (`.+?) \|", tree, re.MULTILINE))
    named = {folder for row in named for folder in re.findall(r"`([\w./-]+)/`", row)}
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    if not listed:
        pytest.skip("no clone: git lists no files")
    folders = [path.split("/")[:-1] for path in listed]
    top = {parts[0] for parts in folders if parts}
    assert {folder.partition("/")[0] for folder in named} == top
    # Of these each folder has its own line.
    for whole in ("pike_mixing", "pipeline", "workflow"):
        below = {"/".join(parts[:2]) for parts in folders if len(parts) > 1 and parts[0] == whole}
        assert {folder for folder in named if folder.startswith(f"{whole}/")} == below


def test_the_index_and_the_site_have_every_page_in_one_order():
    toc = yaml.safe_load((ROOT / "docs" / "_toc.yml").read_text(encoding="utf-8"))
    site = {part["caption"]: [e["file"] for e in part["entries"]] for part in toc["subtrees"]}
    index = {}
    text = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for row in text.partition("| chapter | pages |\n")[2].splitlines()[1:]:
        _, chapter, pages, _ = row.split("|")
        places = [ROOT / "docs" / link for link in re.findall(r"\]\((.*?)\)", pages)]
        index[chapter.strip()] = [
            place.resolve().relative_to(ROOT.resolve()).with_suffix("").as_posix()
            for place in places
        ]
    index["Start"].remove(toc["root"])
    index["How it is built"].append("docs/README")
    assert index == site
    named = {toc["root"], *(file for files in site.values() for file in files)}
    assert named == {p.relative_to(ROOT).with_suffix("").as_posix() for p in PAGES}


@pytest.mark.parametrize("page", reference.PAGES)
def test_pages_show_the_code_as_it_is(page):
    """`make docs` writes them."""
    assert reference.written(page) == (ROOT / page).read_text(encoding="utf-8")


def test_the_readmes_numbers_are_those_of_their_sources():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```text\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert shown in (ROOT / "docs" / "mixtures.md").read_text(encoding="utf-8")
    short = re.findall(r"^\| ([\w-]+) \| (\d+) \| \w+ \d+", readme, re.MULTILINE)
    shared = {
        "CAGrad": (surgery.CAGrad,),
        "Nash-MTL": (surgery.NashMTL, surgery.nash_bargain_and_decrement),
    }
    for method, lines in short:
        parts = shared.get(method) or [inspect.getmodule(METHODS[method.lower()])]
        counted = sum(len(inspect.getsource(part).splitlines()) for part in parts)
        assert counted == int(lines), method
    assert len(short) == 5


def test_the_readme_counts_the_models_of_the_default_experiment():
    plan = planner.plan(planner.read_expanded_config(ROOT / "config.yaml"), "config.yaml")
    assert f"trains {len(plan.runs)} small models" in (ROOT / "README.md").read_text(
        encoding="utf-8"
    )


def test_what_is_recorded_is_the_deciding_experiment():
    path = ROOT / "workflow" / "configs" / "decide.yaml"
    plan = planner.plan(planner.read_expanded_config(path), path.name)
    recorded = ROOT / "recorded" / "settings"
    record = json.loads((recorded / "pike.json").read_text(encoding="utf-8"))
    assert record["runs"].keys() == plan.runs.keys()
    planned = {
        path.partition("/settings/")[2]: one for path, one in plan.settings_by_path().items()
    }
    for path in recorded.glob("*/*.json"):
        values = json.loads(path.read_text(encoding="utf-8"))
        assert values == planned[path.relative_to(recorded).as_posix()], path


def test_the_readmes_badges_and_pictures_are_true():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    assert f"licence-{project['license'].replace('-', '--')}-" in text
    low, high = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", project["requires-python"]).groups()
    assert f"python-3.{low}_to_3.{int(high) - 1}-" in text
    for place in re.findall(r'(?:src|srcset)="([^"]+)"', text):
        assert (ROOT / place).is_file(), place
