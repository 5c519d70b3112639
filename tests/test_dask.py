"""The same models on a cluster of Dask: two worker processes on this machine."""

import itertools
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from in_parts import FMRegressor, ratings
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import polyfm
from polyfm import FactorizationMachineClassifier, FactorizationMachineRegressor

dask = pytest.importorskip("dask", reason="needs Dask: pip install -e '.[dask]'")
distributed = pytest.importorskip("distributed", reason="needs Dask: pip install -e '.[dask]'")

import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402
import pandas as pd  # noqa: E402

from polyfm.dask import (  # noqa: E402
    DaskFactorizationMachineClassifier,
    DaskFactorizationMachineRegressor,
    DaskPolynomialNetworkClassifier,
    DaskPolynomialNetworkRegressor,
    DaskTableEncoder,
    NoWorkersError,
)
from polyfm.dask.engine import DaskEngine  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:dask|distributed"),
]
FIXED = {"alpha": 1.0, "beta": 1.0, "n_components": 4, "max_iter": 6, "tol": 0.0, "random_state": 0}
CUTS = (200, 201, 201, 900)


def cluster_of(n_workers):
    return distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=50
    )


@pytest.fixture(scope="module")
def client():
    X, y = ratings()
    FMRegressor(solver="lbfgs", **FIXED).fit(X, y)  # compile here: workers find it on disk
    with cluster_of(2) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


def in_chunks(X, cuts=CUTS, known=True):
    """A Dask array of sparse chunks."""
    bounds = [0, *cuts, X.shape[0]]
    meta = sp.csr_matrix((0, 0))
    parts = [
        da.from_delayed(
            dask.delayed(X[lo:hi]), (hi - lo if known else np.nan, X.shape[1]), X.dtype, meta=meta
        )
        for lo, hi in itertools.pairwise(bounds)
    ]  # fmt: skip
    return da.concatenate(parts, allow_unknown_chunksizes=not known)


# -- the same models --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["auto", "block"])
def test_sparse_chunks_give_the_model_of_one_machine(client, solver):
    X, y = ratings()
    options = {**FIXED, "solver": solver}
    in_process = FMRegressor(cuts=CUTS, **options).fit(X, y)
    found = DaskFactorizationMachineRegressor(client=client, **options).fit(in_chunks(X), da.from_array(y, chunks=400))
    expected = FactorizationMachineRegressor(**{**options, "solver": found.solver_}).fit(X, y)
    assert_allclose(found.history_, expected.history_, rtol=1e-9)
    assert_allclose(found.components_, expected.components_, rtol=1e-9, atol=1e-9)
    assert_array_equal(found.components_, in_process.components_)  # whoever adds up what


def test_predictions_wait_until_they_are_computed(client):
    X, y = ratings()
    weight = np.random.RandomState(0).uniform(0.5, 2, len(y))
    arrays = in_chunks(X), da.from_array(np.digitize(y, [-1, 1]), chunks=400), da.from_array(weight, chunks=len(y))
    expected = FactorizationMachineClassifier(solver="lbfgs", **FIXED).fit(X, np.digitize(y, [-1, 1]), weight)
    model = DaskFactorizationMachineClassifier(client=client, **FIXED).fit(*arrays)
    for method in ("predict", "predict_proba", "decision_function"):
        lazy, now = getattr(model, method)(arrays[0]), getattr(expected, method)(X)
        assert isinstance(lazy, da.Array)
        assert (lazy.shape, lazy.dtype) == (now.shape, now.dtype)
        assert_allclose(client.compute(lazy).result(), now, rtol=1e-7)
        assert_allclose(getattr(model, method)(X), now, rtol=1e-7)


def test_what_comes_back_is_the_ordinary_estimator(client, tmp_path):
    X, y = ratings(400)
    model = DaskFactorizationMachineRegressor(client=client, **FIXED).fit(in_chunks(X, (100,)), da.from_array(y))
    local = model.to_local()
    assert type(local) is FactorizationMachineRegressor
    polyfm.save_model(local, tmp_path / "model.polyfm")
    assert_array_equal(polyfm.load_model(tmp_path / "model.polyfm").predict(X), model.predict(X))
    polyfm.save_model(model, tmp_path / "same.polyfm")
    assert (tmp_path / "same.polyfm").read_bytes() == (tmp_path / "model.polyfm").read_bytes()
    assert model.client_ is client
    assert pickle.loads(pickle.dumps(model)).client is None
    assert clone(model).client is client
    assert clone(model).get_params()["n_components"] == 4


def test_tables_of_numbers_and_unknown_sizes(client):
    X, y = ratings(600)
    table = pd.DataFrame(X.toarray(), columns=[f"x{j}" for j in range(54)]).assign(y=y)
    frame = dd.from_pandas(table, npartitions=3)
    frame = frame[frame.y > -100]  # so that nobody knows how many rows there are
    features = frame.drop(columns="y")
    expected = FactorizationMachineRegressor(solver="lbfgs", **FIXED).fit(table.drop(columns="y"), y)
    model = DaskFactorizationMachineRegressor(client=client, **FIXED).fit(features, frame.y)
    assert_allclose(model.history_, expected.history_, rtol=1e-9)
    assert model.feature_names_in_.tolist() == expected.feature_names_in_.tolist()
    assert_allclose(client.compute(model.predict(features)).result(), expected.predict(table.drop(columns="y")))
    unknown = DaskFactorizationMachineRegressor(client=client, **FIXED)
    targets = da.from_array(y, chunks=((100, 200, 300),))
    unknown.fit(in_chunks(X, (100, 300), known=False), targets[targets > -100])
    assert_allclose(unknown.history_, FMRegressor(cuts=(100, 300), **FIXED).fit(X, y).history_, rtol=1e-9)


def test_columns_of_a_file_keep_their_partitions(client, tmp_path):
    """Dask puts partitions of a file together where few of its columns are read: in X others than in y."""
    table = table_of().assign(y=np.arange(700) % 5)
    table.to_parquet(tmp_path / "log.parquet", row_group_size=100)
    frame = dd.read_parquet(tmp_path / "log.parquet", split_row_groups=True)
    encoder = DaskTableEncoder(fields=["user"], client=client).fit(frame[["user", "genre"]])
    dX = encoder.transform(frame[["user", "genre"]])
    assert dX.numblocks == (7, 1)
    found = DaskFactorizationMachineRegressor(client=client, **FIXED).fit(dX, frame.y)
    X = polyfm.TableEncoder(fields=["user"]).fit_transform(table[["user", "genre"]])
    assert_allclose(found.history_, FactorizationMachineRegressor(solver="lbfgs", **FIXED).fit(X, table.y).history_)
    numbers = DaskFactorizationMachineRegressor(client=client, **FIXED).fit(frame[["user"]], frame.y)
    assert numbers.predict(frame[["user"]]).numblocks == (7,)


def test_a_client_is_no_part_of_the_problem(client, tmp_path):
    X, y = ratings(400)
    options = {**FIXED, "client": client, "warm_start": True, "checkpoint": tmp_path / "run"}
    model = DaskFactorizationMachineRegressor(**{**options, "max_iter": 2})
    data = in_chunks(X, (100,)), da.from_array(y)
    model.fit(*data).set_params(max_iter=4).fit(*data)
    whole = FMRegressor(cuts=(100,), **FIXED).fit(X, y)
    assert_array_equal(model.history_, whole.history_[2:])


def test_predictions_are_of_the_type_that_was_told(client):
    X, y = ratings(400)
    model = DaskFactorizationMachineRegressor(client=client, **FIXED).fit(in_chunks(X, (100,)), da.from_array(y))
    lazy = model.predict(in_chunks(X.astype(np.float32), (100, 100)))
    assert client.compute(lazy).result().dtype == lazy.dtype == np.float64
    with pytest.raises(ValueError, match="X has 1 axes"):
        model.predict(da.from_array(y))
    for method in ("predict", "predict_proba"):
        with pytest.raises(NotFittedError):
            getattr(DaskFactorizationMachineClassifier(), method)(da.from_array(y))


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (DaskPolynomialNetworkRegressor, polyfm.PolynomialNetworkRegressor),
        pytest.param(DaskPolynomialNetworkClassifier, polyfm.PolynomialNetworkClassifier, marks=pytest.mark.slow),
    ],
)
def test_dense_chunks_of_single_precision(client, kind, plain):
    rng = np.random.RandomState(0)
    X = rng.standard_normal((300, 4)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] > 0).astype(np.float32)
    expected = plain(solver="lbfgs", **FIXED).fit(X, y)
    model = kind(client=client, **FIXED).fit(da.from_array(X, chunks=(100, 2)), da.from_array(y, chunks=100))
    assert model.components_.dtype == np.float32
    assert_allclose(model.history_, expected.history_, rtol=1e-4)


def table_of(n=700):
    rng = np.random.RandomState(0)
    table = pd.DataFrame({
        "user": rng.randint(40, size=n),
        "genre": rng.choice(["drama", "comedy", "noir"], n),
        "age": np.where(rng.uniform(size=n) < 0.1, np.nan, rng.normal(40, 10, n)),
        "seen": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.randint(10**6, size=n), unit="min"),
        "none": np.nan,
        "words": np.where(np.arange(n) < 300, None, "word"),
    })  # fmt: skip
    table.loc[::7, "genre"] = None
    return table


@pytest.mark.parametrize("options", [{}, {"min_frequency": 15}, {"n_buckets": 20}], ids=str)
def test_tables_are_encoded_as_on_one_machine(client, tmp_path, options):
    table = table_of()
    expected = polyfm.TableEncoder(fields=["user"], **options).fit(table)
    table.to_parquet(tmp_path / "one.parquet", row_group_size=200)
    frame = dd.concat([dd.from_pandas(table[:250], npartitions=2), dd.from_pandas(table[250:], npartitions=3)])
    found = DaskTableEncoder(fields=["user"], client=client, **options).fit(frame)
    local = found.to_local()
    assert local.get_feature_names_out().tolist() == expected.get_feature_names_out().tolist()
    assert_allclose(local.medians_, expected.medians_, rtol=1e-12)
    assert_allclose(local.means_, expected.means_, rtol=1e-12)
    assert_allclose(local.scales_, expected.scales_, rtol=1e-12)
    encoded = client.compute(found.transform(frame)).result()
    assert_allclose(encoded.toarray(), expected.transform(table).toarray(), atol=1e-12)
    again = DaskTableEncoder(fields=["user"], client=client, **options).fit(dd.read_parquet(tmp_path / "one.parquet"))
    assert again.get_feature_names_out().tolist() == expected.get_feature_names_out().tolist()


def test_from_a_table_to_a_model(client):
    table = table_of()
    y = (table.user % 5) * (table.genre == "noir") + 0.01 * table.age.fillna(0)
    frame = dd.from_pandas(table.assign(y=y), npartitions=4)
    features = frame.drop(columns="y")
    encoder = DaskTableEncoder(fields=["user"], client=client).fit(features)
    model = DaskFactorizationMachineRegressor(client=client, **FIXED).fit(encoder.transform(features), frame.y)
    expected = FactorizationMachineRegressor(solver="lbfgs", **FIXED).fit(encoder.to_local().transform(table), y)
    assert_allclose(model.history_, expected.history_, rtol=1e-7)


# -- what goes wrong --------------------------------------------------------------------------------------------------


def test_a_bad_partition_is_named(client):
    X, y = ratings(300)
    dX, model = in_chunks(X, (100, 200)), DaskFactorizationMachineRegressor(client=client, **FIXED)
    with pytest.raises(ValueError, match=r"Partition 1: row 50: y is not finite"):
        model.fit(dX, da.from_array(np.where(np.arange(300) == 150, np.nan, y), chunks=100))

    def broken(block, block_info=None):
        if block_info and block_info[0]["chunk-location"][0] == 2:
            raise OSError("cannot read")
        return block

    with pytest.raises(ValueError, match=r"Partition 2 cannot be computed: cannot read"):
        model.fit(dX, da.from_array(y, chunks=100).map_blocks(broken, dtype=float, meta=np.empty(0)))


def test_what_is_no_collection_is_refused(client):
    X, y = ratings(60)
    model = DaskFactorizationMachineRegressor(client=client)
    with pytest.raises(TypeError, match="X is of type csr_matrix; pass a Dask array or DataFrame"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="X has 60 rows, but there are 59"):
        model.fit(in_chunks(X, (30,)), da.from_array(y[1:]))
    words = dd.from_pandas(pd.DataFrame({"word": ["a", "b"] * 30, "y": y}), npartitions=2)
    with pytest.raises(ValueError, match="Column 'word' holds no numbers"):
        model.fit(words[["word"]], words.y)
    stopped = DaskFactorizationMachineRegressor(client=client, early_stopping=True)
    dX, dy = in_chunks(X, (30,)), da.from_array(y)
    with pytest.raises(TypeError, match="X_val and y_val are rows in memory"):
        stopped.fit(dX, dy, X_val=dX, y_val=dy)
    with pytest.raises(TypeError, match="client is of type str"):
        DaskFactorizationMachineRegressor(client="tcp://127.0.0.1:9").fit(dX, dy)
    with pytest.raises(ValueError, match="There is no Dask client"):
        DaskFactorizationMachineRegressor(**FIXED).fit(in_chunks(X, (30,)), da.from_array(y))


def test_without_workers_a_fit_gives_up():
    X, y = ratings(60)
    model = DaskFactorizationMachineRegressor(**FIXED)
    model._patience = 0.5
    with (
        distributed.LocalCluster(
            n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        model.client = client
        with pytest.raises(NoWorkersError, match="There was no Dask worker for 0.5 s"):
            model.fit(in_chunks(X, (30,)), da.from_array(y))
        encoder = DaskTableEncoder(client=client)
        encoder._patience = 0.5
        with pytest.raises(NoWorkersError, match="There was no Dask worker for 0.5 s"):
            encoder.fit(dd.from_pandas(table_of(9), npartitions=1))
    with pytest.raises(ValueError, match="The Dask client is closed"):
        model.fit(in_chunks(X, (30,)), da.from_array(y))


@pytest.mark.slow
def test_clusters_that_grow_with_their_work_see_some():
    X, y = ratings(60)
    with (
        distributed.LocalCluster(
            n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        cluster.adapt(minimum=0, maximum=1, interval="200ms")
        model = DaskFactorizationMachineRegressor(client=client, **FIXED).fit(in_chunks(X, (30,)), da.from_array(y))
        assert model.n_iter_ == FIXED["max_iter"]


def test_neighbours_are_on_one_worker(client):
    X, y = ratings(400)
    engine = DaskEngine(client, [(i, X[i : i + 100], y[i : i + 100]) for i in range(0, 400, 50)])
    assert engine.owners == sorted(engine.owners, key=engine.owners.index)
    assert engine.n_workers == 2
    engine.close()


def test_parts_of_a_lost_worker_go_to_another(client, monkeypatch):
    """As after a kill, without one: an address where nobody is."""
    X, y = ratings(400)
    options, ask, lost = {**FIXED, "client": client}, DaskEngine.answers, []

    def with_a_loss(self, call):
        if call.method == "loss_and_gradient" and len(lost) < 3:
            lost.append(self.owners[-1])
            self.owners[-1], self._doubt = "tcp://127.0.0.1:9", True
        return ask(self, call)

    monkeypatch.setattr(DaskEngine, "answers", with_a_loss)
    found = DaskFactorizationMachineRegressor(**options).fit(in_chunks(X, (100, 250)), da.from_array(y, chunks=100))
    assert len(lost) == 3
    assert_array_equal(found.components_, FMRegressor(cuts=(100, 250), **FIXED).fit(X, y).components_)


@pytest.mark.slow
@pytest.mark.parametrize(("solver", "n_workers"), [("lbfgs", 3), ("block", 3), ("lbfgs", 1)])
def test_a_killed_worker_costs_time_and_nothing_else(solver, n_workers):
    X, y = ratings(20000)
    options = {**FIXED, "max_iter": 60, "solver": solver}
    cuts = tuple(range(2500, 20000, 2500))
    expected = FMRegressor(cuts=cuts, **options).fit(X, y)
    with cluster_of(n_workers) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        pids, killed = list(client.run(os.getpid).values()), []

        def kill():
            time.sleep(2)
            os.kill(pids[0], signal.SIGKILL)
            killed.append(time.monotonic())

        killer = threading.Thread(target=kill)
        killer.start()
        model = DaskFactorizationMachineRegressor(client=client, **options)
        while not killed:
            model.fit(in_chunks(X, cuts), da.from_array(y, chunks=1000))
        killer.join()
        assert_array_equal(model.components_, expected.components_)
        assert_array_equal(model.history_, expected.history_)


INTERRUPTED = """
import os, signal, sys, threading
import dask.array as da, distributed
from in_parts import ratings
from polyfm.dask import DaskFactorizationMachineRegressor

if __name__ == "__main__":
    X, y = ratings(5000)
    cluster = distributed.LocalCluster(2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0")
    client = distributed.Client(cluster)
    model = DaskFactorizationMachineRegressor(alpha=1.0, beta=1.0, max_iter=10**6, tol=0.0, random_state=0)
    threading.Timer(8, lambda: os.killpg(os.getpgrp(), signal.SIGINT)).start()
    model.fit(da.from_array(X.toarray(), chunks=(1000, -1)), da.from_array(y, chunks=1000))
    print("kept", model.n_iter_, model.score(X.toarray(), y), flush=True)
    os._exit(0)
"""


LOADING = """
import os, signal, threading, time
import dask.array as da, distributed, numpy as np
from polyfm.dask import DaskFactorizationMachineRegressor

def slowly(block):
    time.sleep(300)
    return block

if __name__ == "__main__":
    cluster = distributed.LocalCluster(2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0")
    client = distributed.Client(cluster)
    threading.Timer(3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    X = da.ones((40, 2), chunks=(10, 2)).map_blocks(slowly, meta=np.empty((0, 0)))
    try:
        DaskFactorizationMachineRegressor().fit(X, da.ones(40, chunks=10))
    except KeyboardInterrupt:
        print("ended", flush=True)
"""


@pytest.mark.slow
def test_ctrl_c_while_rows_are_loaded_ends_the_process(tmp_path):
    (tmp_path / "script.py").write_text(LOADING)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")], capture_output=True, text=True, timeout=150, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(polyfm.__file__).parents[1])},
    )  # fmt: skip
    assert done.stdout.split() == ["ended"]


@pytest.mark.slow
def test_ctrl_c_in_a_terminal_ends_the_workers_too_and_keeps_the_model(tmp_path):
    (tmp_path / "script.py").write_text(INTERRUPTED)
    paths = [str(Path(__file__).parent), str(Path(polyfm.__file__).parents[1])]
    done = subprocess.run(
        [sys.executable, str(tmp_path / "script.py")], capture_output=True, text=True, timeout=120, check=False,
        start_new_session=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )  # fmt: skip
    word, n_iter, score = done.stdout.split()
    assert word == "kept"
    assert int(n_iter) > 3
    assert float(score) > 0.5
