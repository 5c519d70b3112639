"""What the site has that no page says: its navigation, and the public names of the reference.

The pages are plain Markdown that reads well on a code host too, so that the trees of pages stand here.
"""

import importlib
import inspect
import os
from pathlib import Path

DOCS = Path(__file__).parent

# Below each page, its children in the order in which a reader wants them.
PAGES = {
    "index": ["install", "guide", "auto_examples/index", "api/index", "performance", "coming-from", "project"],
    "guide": [
        "files",
        "interpretation",
        "recommend",
        "bayes",
        "defaults",
        "certificate",
        "export",
        "distributed",
        "spark",
        "datasets",
    ],
    "performance": ["benchmarks", "benchmarks-protocol", "benchmarks-settings"],
    "project": ["architecture", "decisions/README", "reproduction", "changelog", "contributing", "citation"],
    "decisions/README": sorted(f"decisions/{page.stem}" for page in (DOCS / "decisions").glob("0*.md")),
}

# Pages that hold a file outside of docs/.
OUTSIDE = {
    "changelog": "../CHANGELOG.md",
    "contributing": "../CONTRIBUTING.md",
    "benchmarks-protocol": "../benchmarks/README.md",
    "benchmarks-settings": "../benchmarks/results/settings.md",
}


def link(path: Path, page: str, target: str) -> str:
    """A relative link of a Markdown file, as a link of the page that the file is on the site."""
    found = (path.parent / target).resolve()
    for other, outside in OUTSIDE.items():
        if found == (DOCS / outside).resolve():
            found = DOCS / f"{other}.md"
    return os.path.relpath(found, (DOCS / page).parent)


def children(page: str) -> list[str]:
    """The pages below a page, of those that are there. A page that is named nowhere comes at the end of the guide."""
    made = {"auto_examples/index", "api/index"}
    named = set().union(*PAGES.values(), PAGES)
    found = [child for child in PAGES.get(page, ()) if child in made or (DOCS / f"{child}.md").exists()]
    if page == "guide":
        found += sorted({path.stem for path in DOCS.glob("*.md")} - named)
    return found


# The reference: sections of names. `polyfm` alone is left out of a name. Names in no section come at the end.
MODULES = ["", "tabular", "modelfile", "datafiles", "libfm", "display", "recommend", "export", "losses", "kernels",
           "datasets", "dask", "spark"]  # fmt: skip
WITH_WORDS = ["losses", "datasets"]  # modules whose docstrings say what none of their names does
SECTIONS = {
    "Factorization machines": (
        "Products of distinct features. Start here.",
        ["FactorizationMachineRegressor", "FactorizationMachineClassifier", "FactorizationMachineOrdinal"],
    ),
    "Polynomial networks": (
        "Powers of features, too: for dense, continuous data.",
        ["PolynomialNetworkRegressor", "PolynomialNetworkClassifier"],
    ),
    "Searches": (
        "The same with beta chosen by cross-validation, along a path.",
        [
            "FactorizationMachineRegressorCV",
            "FactorizationMachineClassifierCV",
            "PolynomialNetworkRegressorCV",
            "PolynomialNetworkClassifierCV",
        ],
    ),
    "Bayesian machines": (
        "No penalties to choose, and predictions that say how sure they are.",
        [
            "BayesianFactorizationMachineRegressor",
            "BayesianFactorizationMachineClassifier",
            "BayesianFactorizationMachineOrdinal",
            "BayesianPolynomialNetworkRegressor",
            "BayesianPolynomialNetworkClassifier",
        ],
    ),
    "Tables": ("From columns to features.", ["TableEncoder"]),
    "Recommendation": ("From ids to the best items.", "recommend"),
    "Reading a model": ("What was learned, by name.", ["interactions", "explain", "report"]),
    "Pictures": ("As scikit-learn's displays.", "display"),
    "Certificates": (
        "How far a model is from the best possible.",
        ["certify", "Certificate", "diagnose", "Diagnosis"],
    ),
    "Model files": ("Safe to open.", ["save_model", "load_model", "model_info", "modelfile.ModelFileError"]),
    "Data files": ("svmlight, libFM, CSV, TSV and Parquet, whole or in chunks.", "datafiles"),
    "Models for other programs": ("ONNX, plain C, libFM's text.", ["export", "libfm"]),
    "Direct and lifted": ("The two forms of one model.", ["lifted_to_direct", "direct_to_lifted"]),
    "Losses": ("Those that have names, and your own.", "losses"),
    "Kernels": ("The functions that all models are sums of.", "kernels"),
    "Data sets": ("Those of the paper, and two more.", "datasets"),
    "Compiling in advance": ("So that no first fit waits.", ["warm_up", "Warmed"]),
    "Dask": ("Several machines, or more data than memory.", "dask"),
    "Spark": ("The same as estimators of Spark ML.", "spark"),
}


def module(name: str) -> object | None:
    """A public module, or None where it (or what it needs) is not installed."""
    try:
        return importlib.import_module(f"polyfm.{name}".rstrip("."))
    except ImportError:
        return None


def public(name: str) -> list[str]:
    """The public names of a module, modules left out."""
    home = module(name)
    names = [] if home is None else [n for n in home.__all__ if not inspect.ismodule(getattr(home, n))]
    return [f"{name}.{n}".lstrip(".") for n in names]


def reference() -> dict[str, tuple[str, list[str]]]:
    """The sections of the reference with all of their names; every public name is in one, under its shortest name."""
    every = {}  # by identity: polyfm.TableEncoder is polyfm.tabular.TableEncoder
    for home in MODULES:
        for name in public(home):
            every.setdefault(_key(name), name)
    found, taken = {}, set()
    for title, (words, names) in SECTIONS.items():
        wanted = [names] if isinstance(names, str) else names
        listed = [n for name in wanted for n in (public(name) if name in MODULES else [name])]
        listed = [every[_key(name)] for name in listed if _key(name) not in taken]
        taken |= {_key(name) for name in listed}
        if listed:
            found[title] = (words, listed)
        elif isinstance(names, str) and module(names) is None:
            found[title] = (f'{words} Left out here: it needs ``pip install "polyfm[{names}]"``.', [])
    rest = [name for key, name in every.items() if key not in taken]
    if rest:
        found["Further names"] = ("", rest)
    return found


def value(name: str) -> object:
    """What a name of the reference stands for."""
    home, _, attribute = f"polyfm.{name}".rpartition(".")
    return getattr(importlib.import_module(home), attribute)


def _key(name: str) -> object:
    return value(name) if callable(value(name)) else name
