"""Spark: seconds to the error that Spark ML's own factorization machine reaches, and what a round costs.

POLYFM_DATA=DIR python benchmarks/spark.py race [--limit 600]      # MovieLens 1M, rank 8, local[2]
POLYFM_DATA=DIR python benchmarks/spark.py round [--repeat 30]     # a gradient of it, and of next to no rows

The other side has no way to stop by time: it is fitted with 25 iterations, 50, 100, ... as long as the next fit may be
expected to end within the limit, for each of `--steps`. Its best root mean square error on held-out rows is the goal.
Compiling and the JVM's warming up come before, for both.
"""

import argparse
import os
import sys
import time
import warnings

import numpy as np

RANK, ALPHA, BETA = 8, 2.0, 8.0


def session():
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for name, value in (
        ("spark.driver.bindAddress", "127.0.0.1"),
        ("spark.driver.host", "127.0.0.1"),
        ("spark.driver.memory", "4g"),
        ("spark.ui.showConsoleProgress", "false"),
        ("spark.log.level", "OFF"),
    ):
        builder = builder.config(name, value)
    return builder.getOrCreate()


def frames(spark, *parts):
    """Each X and y, rows of two one-hot fields, as a DataFrame of sparse vectors."""
    import pyarrow as pa
    from pyspark.ml import Pipeline
    from pyspark.ml.feature import OneHotEncoder, VectorAssembler

    d = parts[0][0].shape[1]
    first = int(max(X.indices.reshape(-1, 2)[:, 0].max() for X, _ in parts)) + 1  # features of the first field
    tables = []
    for X, y in parts:
        columns = X.indices.reshape(-1, 2).astype(float)
        tables.append(pa.table({"user": columns[:, 0], "item": columns[:, 1] - first, "label": y}))
    sizes = spark.createDataFrame(pa.table({"user": [first - 1.0], "item": [d - first - 1.0], "label": [0.0]}))
    encode = Pipeline(
        stages=[
            OneHotEncoder(inputCols=["user", "item"], outputCols=["u", "i"], dropLast=False),
            VectorAssembler(inputCols=["u", "i"], outputCol="features"),
        ]
    ).fit(sizes)
    found = []
    for table in tables:
        frame = encode.transform(spark.createDataFrame(table).repartition(4)).select("features", "label").persist()
        frame.count()
        found.append(frame)
    return found


def ordered(X):
    X.sort_indices()
    return X


def others(train, test, step: float, iterations: int) -> tuple[float, float]:
    """Seconds and error of Spark ML's own machine."""
    from pyspark.ml.evaluation import RegressionEvaluator
    from pyspark.ml.regression import FMRegressor

    began = time.perf_counter()
    model = FMRegressor(factorSize=RANK, stepSize=step, maxIter=iterations, seed=0, tol=0.0).fit(train)
    seconds = time.perf_counter() - began
    return seconds, RegressionEvaluator().evaluate(model.transform(test))


def ours(train, X_test, y_test, goal: float, most: int) -> list[tuple[float, float]]:
    """Seconds and error after each epoch, until the goal is reached; judging takes none of them."""
    from polyfm.core.design import Design
    from polyfm.core.fitted import Fitted
    from polyfm.core.model import build_model
    from polyfm.spark import SparkFactorizationMachineRegressor
    from polyfm.training.hooks import watching

    model = build_model("anova", "direct", 2, RANK, "explicit", True, True)
    seen: list[tuple[float, float]] = []
    spent = 0.0
    began = time.perf_counter()

    def judge(progress) -> bool:
        nonlocal spent
        now = time.perf_counter()
        f = Fitted(model, [progress.parameters]).predict(Design(X_test))
        seen.append((now - began - spent, float(np.sqrt(np.mean((np.ravel(f) - y_test) ** 2)))))
        spent += time.perf_counter() - now
        return seen[-1][1] <= goal

    machine = SparkFactorizationMachineRegressor(
        n_components=RANK, alpha=ALPHA, beta=BETA, fit_lower="explicit", maxIter=most, tol=0.0
    )
    with watching(judge):
        machine.fit(train)
    return seen


def race(limit: float, steps: list[float], most: int) -> None:
    import data

    X, X_test, y, y_test = data.movielens_1m()
    X, X_test = ordered(X), ordered(X_test)
    spark = session()
    train, test = frames(spark, (X, y), (X_test, y_test))
    few = train.limit(2000).repartition(2).persist()
    others(few, few, 0.1, 2)
    ours(few, X_test[:100], y_test[:100], 0.0, 2)
    goal = np.inf
    for step in steps:
        iterations, longest = 25, 0.0
        while longest == 0.0 or 2 * longest <= limit:
            seconds, error = others(train, test, step, iterations)
            print(
                f"FMRegressor, step {step:g}, {iterations} iterations: {seconds:.1f} s, error {error:.4f}", flush=True
            )
            if seconds <= limit:
                goal = min(goal, error)
            iterations, longest = 2 * iterations, max(seconds, longest)
    print(f"its best within {limit:g} s: {goal:.4f}")
    seen = ours(train, X_test, y_test, goal, most)
    for epoch, (seconds, error) in enumerate(seen, 1):
        print(f"ours, epoch {epoch}: {seconds:.1f} s, error {error:.4f}")
    print(f"load of the machine, of 2 processors: {os.getloadavg()[0]:.1f}")
    spark.stop()


# -- what a round costs -----------------------------------------------------------------------------------------------


def cpu_seconds() -> float:
    import psutil

    found = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        times = process.cpu_times()
        found += times.user + times.system
    return found


def round_cost(repeat: int) -> None:
    import data
    import scipy.sparse as sp

    from polyfm.core.model import build_model
    from polyfm.core.parameters import Parameters
    from polyfm.distributed.chunk import Layout
    from polyfm.distributed.engine import Sent
    from polyfm.distributed.problem import DistributedDesign
    from polyfm.spark.engine import SparkEngine
    from polyfm.spark.parts import Pack
    from polyfm.spark.rows import features, rows_to_train_on

    rng = np.random.RandomState(0)
    X, _, y, _ = data.movielens_1m()
    d = 300_000 // 17
    half = d // 2
    columns = np.column_stack([rng.randint(half, size=200), half + rng.randint(d - half, size=200)])
    columns[0] = half - 1, d - 1  # so that it is seen how many there are
    small = sp.csr_matrix((np.ones(400), columns.ravel(), np.arange(0, 401, 2)), shape=(200, d))
    spark = session()
    for name, (data_matrix, targets) in {
        "next to no rows": (small, rng.standard_normal(200)), "MovieLens 1M": (ordered(X), y),
    }.items():  # fmt: skip
        (frame,) = frames(spark, (data_matrix, targets))
        engine = SparkEngine(
            rows_to_train_on(frame, features(frame, "features"), "label", None, False), Pack(False, False)
        )
        width = data_matrix.shape[1]
        model = build_model("anova", "direct", 2, 16, None, True, True)
        layout = Sent(Layout("float64", True, width, "sorted", None, None))
        problem = DistributedDesign(engine, data_matrix.shape, data_matrix.nnz, layout, "squared").problem(
            model, 0, 1.0, 1.0
        )
        start = Parameters((rng.standard_normal((16, 1, width)),), (np.ones(16),), np.zeros(width), np.zeros(1))
        start = model.unpack(model.pack(start), start)
        for _ in range(5):
            problem.loss_and_gradient(start)
        walls, before = [], cpu_seconds()
        for _ in range(repeat):
            began = time.perf_counter()
            problem.loss_and_gradient(start)
            walls.append(1e3 * (time.perf_counter() - began))
        spent = 1e3 * (cpu_seconds() - before) / repeat
        print(
            f"{name}, {model.pack(start).size} parameters, {engine.n_parts} partitions, local[2]: a round takes "
            f"{spent:.0f} ms of all processors, {min(walls):.0f} / {np.median(walls):.0f} ms of wall time (least / "
            f"median of {repeat}; load {os.getloadavg()[0]:.1f})",
            flush=True,
        )
        engine.close()
    spark.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["race", "round"])
    parser.add_argument("--limit", type=float, default=600.0, help="seconds that a fit of the other side may take")
    parser.add_argument("--steps", type=float, nargs="+", default=[0.1, 0.03], help="its step sizes to try")
    parser.add_argument("--epochs", type=int, default=100, help="most epochs of ours")
    parser.add_argument("--repeat", type=int, default=30, help="rounds to time")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.what == "race":
        race(options.limit, options.steps, options.epochs)
    else:
        round_cost(options.repeat)
