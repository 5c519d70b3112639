"""What fits need can be compiled in advance."""

import json
import os
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

import polyfm
from polyfm import warming
from polyfm.cli.main import cli
from polyfm.loops import cache

COUNT = """
import json, sys
from numba.core import event
found = []
class Listener(event.Listener):
    def on_start(self, of): found.append(of.data["dispatcher"].py_func.__qualname__)
    def on_end(self, of): pass
event.register("numba:compile", Listener())
from polyfm import warming
warming.fit(sys.argv[1])
print(json.dumps(found))
"""


@pytest.mark.slow
def test_nothing_is_left_to_compile(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "POLYFM_CACHE": "1"}
    words = [sys.executable, "-m", "polyfm", "warm-up", "tables", "networks", "--jobs", "2"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert sorted(line.split(":")[0] for line in done.stderr.splitlines()[1:]) == ["networks", "tables"]
    for name in ("tables", "networks"):
        count = subprocess.run(
            [sys.executable, "-c", COUNT, name], env=environment, capture_output=True, text=True, check=True
        )
        assert json.loads(count.stdout) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", warming.PROBLEMS)
def test_every_problem_can_be_fitted(name):
    warming.fit(name)


def test_an_unknown_name_is_an_error_that_lists_what_there_is(monkeypatch):
    with pytest.raises(ValueError, match="no 'pictures' to warm up; there are 'ratings', 'clicks'"):
        polyfm.warm_up(["tables", "pictures"])
    result = CliRunner().invoke(cli, ["warm-up", "pictures"])
    assert result.exit_code == 2
    assert "there are 'ratings'" in result.output
    monkeypatch.setenv("POLYFM_CACHE", "0")
    with pytest.raises(ValueError, match="POLYFM_CACHE=0 switches the cache off"):
        polyfm.warm_up(["tables"])


def test_an_error_ends_what_is_still_compiling(monkeypatch):
    monkeypatch.setattr(warming, "PROBLEMS", {"tables": None, "ratings": None, "networks": None})
    program = "import sys, time; time.sleep(0 if 'tables' in sys.argv[-1] else 60); sys.exit(1)"
    popen = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda words, **options: popen([words[0], "-c", program, words[-1]], **options)
    )
    began = time.perf_counter()
    with pytest.raises(RuntimeError, match="'tables' could not be compiled"):
        polyfm.warm_up(n_jobs=2)
    assert time.perf_counter() - began < 30


def test_what_fails_to_compile_is_named(monkeypatch):
    monkeypatch.setattr(warming.sys, "executable", "false")
    with pytest.raises(RuntimeError, match="'tables' could not be compiled: no message"):
        polyfm.warm_up(["tables"])


@pytest.mark.parametrize("jobs", [0, 1.5, "2"])
def test_a_number_of_processes_that_is_none_is_refused(jobs):
    with pytest.raises(ValueError, match="n_jobs must be a number of processes"):
        polyfm.warm_up(["tables"], jobs)


def test_it_is_an_error_that_nothing_can_be_kept(monkeypatch):
    monkeypatch.setattr(warming, "PROBLEMS", {"tables": lambda: iter(())})
    monkeypatch.setattr(cache, "kept", set())
    monkeypatch.setenv("NUMBA_CACHE_DIR", "nowhere")
    with pytest.raises(OSError, match="compiled code cannot be kept.* which is 'nowhere'"):
        warming.fit("tables")
    monkeypatch.setattr(cache, "kept", {"a.nbc"})
    warming.fit("tables")
