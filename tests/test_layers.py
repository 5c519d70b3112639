"""The tree shows the architecture, and stays honest: no lower layer imports a higher one."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import polyfm

PACKAGE = Path(polyfm.__file__).parent
# From the bottom up; modules of one line may use each other. The longest name that fits a module counts.
LAYERS = [
    ["loops"],
    ["losses", "files"],
    ["core"],
    ["kernels", "conversion", "solvers"],
    ["training"],
    ["estimators"],
    ["tabular", "reading", "datafiles", "datasets", "distributed"],
    [
        "interpretation",
        "certificate",
        "diagnosis",
        "display",
        "recommend",
        "files.records",
        "files.fitted",
        "files.posteriors",
        "modelfile",
        "libfm",
        "dask",
        "spark",
    ],
    ["export", "reporting", "warming"],
    ["reproduce"],
    ["cli", "__main__", "__init__"],
]
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}
DOORS = (
    "kernels", "losses", "display", "interpretation", "certificate", "diagnosis", "modelfile", "datafiles", "libfm",
    "tabular", "conversion", "datasets", "estimators", "solvers", "reproduce", "recommend", "export", "reporting",
    "warming",
)  # fmt: skip


def height(module: str) -> int:
    while module not in HEIGHT:
        module = module.rpartition(".")[0]
    return HEIGHT[module]


def imports(path: Path) -> set[str]:
    """Modules of the package that a file imports, at its top or later, without the package's own name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name.removeprefix("polyfm.") for name in found if name.startswith("polyfm.")}


def test_no_lower_layer_imports_a_higher_one():
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        for imported in imports(path):
            if imported.partition(".")[0] in HEIGHT:  # and not a name such as __version__
                assert height(imported) <= height(module), f"{path} imports polyfm.{imported}"


def test_every_module_has_its_place():
    for path in PACKAGE.iterdir():
        if path.suffix == ".py" or (path / "__init__.py").exists():
            assert path.stem in HEIGHT, path


def test_the_numerical_layers_know_no_scikit_learn():
    for layer in ("loops", "core", "solvers", "training"):
        for path in (PACKAGE / layer).rglob("*.py"):
            assert "import sklearn" not in path.read_text(), path
            assert "from sklearn" not in path.read_text(), path


@pytest.mark.parametrize("name", DOORS)
def test_public_doors_open(name):
    importlib.import_module(f"polyfm.{name}")


def test_every_public_name_is_there():
    for name in polyfm.__all__:
        assert hasattr(polyfm, name)


@pytest.mark.parametrize("command", [[sys.executable, "-m", "polyfm"], [Path(sys.executable).parent / "polyfm"]])
def test_both_commands_start(command):
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == f"polyfm, version {polyfm.__version__}", done.stderr


def test_the_page_on_architecture_says_who_checks_the_arguments_of_every_loop():
    page = PACKAGE.parents[1] / "docs" / "architecture.md"
    if not page.exists():
        pytest.skip("the pages are not part of this copy")
    text = page.read_text()
    section = text[text.index("## Who checks what a loop is given") : text.index("## How to add a loss")]
    for path in (PACKAGE / "loops").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            marks = getattr(node, "decorator_list", [])
            if any("loop" in ast.unparse(mark).split("(")[0].split(".") for mark in marks):
                assert f"`{node.name}`" in section, node.name
