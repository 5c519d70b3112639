"""The compiler's edge: the disk cache is never stale, can be switched off, and leaves users' losses out."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import polyfm
from polyfm.loops.jit import at

PACKAGE = Path(polyfm.__file__).parent
VALUE = (
    "from polyfm.loops.rows import total_loss; from polyfm.loops.response import Response; "
    "from polyfm.losses import Squared; import numpy as np; "
)
PRINT = "print(total_loss(Response(Squared(), None, None, None), np.array([2.0])))"


def run_in(directory, code, **environment):
    environment = {**os.environ, "PYTHONPATH": str(directory), "PYTHONDONTWRITEBYTECODE": "1", **environment}
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def copied_package(directory):
    shutil.copytree(PACKAGE, directory / "polyfm", ignore=shutil.ignore_patterns("__pycache__"))
    return directory


def test_editing_a_loss_reaches_loops_cached_from_another_file(tmp_path):
    home = copied_package(tmp_path)
    assert run_in(home, VALUE + PRINT) == "2.0"
    assert list(home.rglob("*total_loss*.nbc"))
    hits = VALUE + PRINT + "; print(sum(total_loss.stats.cache_hits.values()))"
    assert run_in(home, hits).split() == ["2.0", "1"]
    losses = home / "polyfm" / "loops" / "losses.py"
    losses.write_text(losses.read_text().replace("return 0.5 * (f - y) * (f - y)", "return 7.0 * (f - y) * (f - y)"))
    assert run_in(home, hits).split() == ["28.0", "0"]


def test_cache_can_be_switched_off(tmp_path):
    home = copied_package(tmp_path)
    assert run_in(home, VALUE + PRINT, POLYFM_CACHE="0") == "2.0"
    assert not list(home.rglob("*.nbc"))


def test_works_without_numbas_cache_hooks(tmp_path):
    home = copied_package(tmp_path)
    code = "import numba.core.caching as c; c.FunctionCache = None; " + VALUE + PRINT
    assert run_in(home, code) == "2.0"
    assert not list(home.rglob("*.nbc"))


def test_users_losses_stay_out_of_the_cache(tmp_path):
    home = copied_package(tmp_path)
    code = """
from polyfm.loops.rows import total_loss
from polyfm.loops.response import Response
from polyfm.losses import as_loss
import numpy as np
class Mine:
    curvature = 2.0
    def value(self, y, f):
        return (f - y) ** 2
    def derivative(self, y, f):
        return 2 * (f - y)
print(total_loss(Response(as_loss(Mine()), None, None, None), np.array([3.0])))
"""
    assert run_in(home, code) == "9.0"
    assert not list(home.rglob("*.nbc"))


def test_loops_run_uncompiled_too(tmp_path):
    code = (
        "import numpy as np; from polyfm import FactorizationMachineRegressor as F; "
        "X = np.arange(12.).reshape(4, 3); "
        "print(F(degree=3, n_components=1, max_iter=2, tol=1.0).fit(X, X[:, 0]).n_iter_); "
        "print(F(n_components=1, max_iter=2, tol=1.0, solver='block').fit(X, X[:, 0]).n_iter_)"
    )
    assert run_in(PACKAGE.parent, code, NUMBA_DISABLE_JIT="1").split() == ["1", "1"]


def test_editing_what_is_not_compiled_compiles_nothing_anew(tmp_path):
    home = copied_package(tmp_path)
    hits = VALUE + PRINT + "; print(sum(total_loss.stats.cache_hits.values()))"
    run_in(home, hits)
    for name in ("display/axes.py", "estimators/base.py", "solvers/sgd.py"):
        path = home / "polyfm" / name
        path.write_text(path.read_text().replace('"""', '"""Edited. ', 1))
    assert run_in(home, hits).split() == ["2.0", "1"]


def test_everything_that_numba_compiles_lives_in_loops():
    """So that the stamp of the cache covers it: no other module asks for a compiler."""
    for path in PACKAGE.rglob("*.py"):
        if "loops" not in path.relative_to(PACKAGE).parts:
            text = path.read_text()
            assert "@loop" not in text, path
            assert "@inline" not in text, path
            assert "njit" not in text, path


def test_compiling_leaves_the_collector_of_garbage_as_it_was():
    code = """
import gc
from polyfm.loops.jit import without_collecting
during = without_collecting(lambda: gc.isenabled())
at_first = gc.get_freeze_count()  # not 0 in Python 3.12
assert not during() and gc.isenabled() and gc.get_freeze_count() == at_first
gc.disable()
assert not during() and not gc.isenabled()
gc.enable()
gc.freeze()
frozen = gc.get_freeze_count()
during()
assert gc.get_freeze_count() == frozen > 0 and gc.isenabled()
print("as it was")
"""
    assert run_in(PACKAGE.parent, code) == "as it was"


SLOW = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("cut", "empty", "another loop's")]


@pytest.mark.parametrize("damage", ["flipped", *SLOW])
def test_a_damaged_cache_is_compiled_anew(tmp_path, damage):
    home = copied_package(tmp_path)
    hits = VALUE + PRINT + "; print(sum(total_loss.stats.cache_hits.values()))"
    code = hits + "; from polyfm.loops.rows import slopes_at; slopes_at(Response(Squared(), None, None, None), 3, 0.0)"
    run_in(home, code)
    (path,) = home.rglob("*total_loss*.nbc")
    content = path.read_bytes()
    (other,) = home.rglob("*_sums*.nbc")
    damaged = {
        "cut": content[:-100], "flipped": content[:5000] + bytes([content[5000] ^ 1]) + content[5001:], "empty": b"",
        "another loop's": other.read_bytes(),
    }  # fmt: skip
    path.write_bytes(damaged[damage])
    assert run_in(home, hits).split() == ["2.0", "0"]
    assert run_in(home, hits).split() == ["2.0", "1"]


@pytest.mark.slow
def test_processes_that_start_together_on_a_fresh_cache_do_not_mix_it_up(tmp_path):
    """Each compiles another loss first; afterwards each finds its own code."""
    home = copied_package(tmp_path)
    code = (
        "import sys; from polyfm.loops.rows import total_loss; from polyfm.loops.response import Response; "
        "from polyfm.losses import as_loss; import numpy as np; loss = as_loss(sys.argv[1]); y = np.ones(1); "
        "print(total_loss(Response(loss, y, None, None), np.zeros(1)), sum(total_loss.stats.cache_hits.values()))"
    )
    environment = {**os.environ, "PYTHONPATH": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("NUMBA_CACHE_DIR", None)
    for hits in ("0", "1"):
        running = [
            subprocess.Popen([sys.executable, "-c", code, name], env=environment, stdout=subprocess.PIPE, text=True)
            for name in ("squared", "logistic", "squared_hinge")
        ]
        found = [process.communicate()[0].split() for process in running]
        assert found == [["0.5", hits], ["0.6931471805599453", hits], ["1.0", hits]]


def test_a_package_that_cannot_be_written_to_works(tmp_path):
    """Then the cache lies elsewhere, or nowhere."""
    home = copied_package(tmp_path)
    code = "import numba.core.caching as c; c.CacheImpl._locator_classes = []; " + VALUE + PRINT
    assert run_in(home, code) == "2.0"
    assert not list(home.rglob("*.nbc"))


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no modes of files")
def test_code_is_never_read_from_where_others_may_write(tmp_path):
    home = copied_package(tmp_path)
    folder = home / "polyfm" / "loops" / "__pycache__"
    folder.mkdir()
    folder.chmod(0o777)
    assert run_in(home, VALUE + PRINT) == "2.0"
    assert not list(home.rglob("*.nbc"))
    folder.chmod(0o755)
    assert run_in(home, VALUE + PRINT) == "2.0"
    assert list(home.rglob("*total_loss*.nbc"))


def test_at_gives_the_default_without_an_array():
    assert at(None, 3, 1.5) == 1.5
    assert at(np.arange(4), 3, 1.5) == 3
