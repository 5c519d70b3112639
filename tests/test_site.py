"""The site has every page and every public name, nothing undocumented; examples are stories, and run."""

import dataclasses
import importlib.util
import inspect
import runpy
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).parent.parent
if not (ROOT / "docs" / "navigation.py").exists():
    pytest.skip("the pages are not part of this copy", allow_module_level=True)
spec = importlib.util.spec_from_file_location("navigation", ROOT / "docs" / "navigation.py")
navigation = importlib.util.module_from_spec(spec)
spec.loader.exec_module(navigation)
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NEEDED = {"16_dask_on_a_laptop": "distributed"}
CHECKS = {"GL08", "PR01", "PR02", "PR07", "SS03", "YD01"}  # of numpydoc's: what is missing, or not true


def names() -> list[str]:
    return [name for _, listed in navigation.reference().values() for name in listed]


def test_every_public_name_is_in_the_reference_once():
    listed = [navigation.value(name) for name in names()]
    for home in navigation.MODULES:
        for name in navigation.public(home):
            assert sum(value is navigation.value(name) for value in listed) == 1, name


def test_every_page_is_in_the_navigation_once():
    reached, front = [], ["index"]
    while front:
        page = front.pop()
        reached.append(page)
        front += navigation.children(page)
    pages = [path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(reached) == sorted({*pages, "api/index", "auto_examples/index"})


def written_here(name: str) -> list[str]:
    """A name and, of a class, those of its public methods that polyfm wrote."""
    value = navigation.value(name)
    found = [name] if callable(value) else []
    if inspect.isclass(value) and not is_record(value):
        for method in dir(value):
            member = getattr(value, method, None)
            home = getattr(inspect.unwrap(member), "__module__", None) if callable(member) else None
            if not method.startswith("_") and (home or "").startswith("polyfm"):
                found.append(f"{name}.{method}")
    return found


def is_record(value: object) -> bool:
    """Whether a class is what functions return: its fields are attributes rather than parameters."""
    return inspect.isclass(value) and (issubclass(value, tuple) or dataclasses.is_dataclass(value))


def test_no_parameter_is_undocumented():
    validate = pytest.importorskip("numpydoc.validate", reason='numpydoc is not installed: pip install -e ".[docs]"')
    faults = []
    for name in (one for listed in names() for one in written_here(listed)):
        value = navigation.value(name) if name in names() else None
        checks = CHECKS - {"PR01"} if is_record(value) or getattr(value, "_is_protocol", False) else CHECKS
        found = validate.validate(f"polyfm.{name}")["errors"]
        faults += [f"polyfm.{name}: {text}" for code, text in found if code in checks]
        if is_record(value) and not value.__module__.startswith("polyfm.loops"):  # those are documented as `Loss` is
            fields = getattr(value, "_fields", None) or [field.name for field in dataclasses.fields(value)]
            entries = validate.get_doc_object(value)["Attributes"]
            told = {word.strip() for entry in entries if entry.desc for word in entry.name.split(",")}
            faults += [f"polyfm.{name}: {field} is not documented" for field in fields if field not in told]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_are_stories(example):
    """A title, a question, code that compiles, and a picture; how they run is tested with the slow ones."""
    text = example.read_text()
    compile(text, example.name, "exec")
    title, rule = text.splitlines()[1:3]
    assert text.startswith('"""\n')
    assert set(rule) == {"="}
    assert len(rule) == len(title)
    assert "plt.show()" in text
    assert text.count("# %%\n") >= 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run_and_draw(example):
    matplotlib = pytest.importorskip("matplotlib", reason="examples draw, and matplotlib is not installed")
    pytest.importorskip(NEEDED.get(example.stem, "polyfm"), reason="what the example shows is not installed")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.close("all")
    with threadpool_limits(1):
        runpy.run_path(str(example))
    assert plt.get_fignums()
    plt.close("all")
