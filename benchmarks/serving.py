"""One raw row at a time through a table encoder of 39 columns and a factorization machine, against whole batches.

python benchmarks/serving.py

Needs no data: the table is made up, with 13 columns of numbers with gaps and 26 of words, as logs of clicks have. Rows
come as dicts, as tables of pandas with one row and, where it is installed, of polars. The way is that of any pipeline:
`model.predict_proba(row)`. Every probability is compared with that of the batch, bit for bit.
"""

import time
import warnings

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline

from polyfm import FactorizationMachineClassifier
from polyfm.tabular import TableEncoder

N_NUMBERS, N_WORDS, N_ROWS, N_SERVED = 13, 26, 20_000, 2_000


def clicks(seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """A table of clicks, and whether there was one."""
    rng = np.random.RandomState(seed)
    columns: dict[str, np.ndarray] = {}
    for j in range(N_NUMBERS):
        values = np.floor(rng.lognormal(2, 1.5, N_ROWS))
        columns[f"I{j + 1}"] = np.where(rng.rand(N_ROWS) < 0.2, np.nan, values)
    for j in range(N_WORDS):
        kinds = rng.zipf(1.3, N_ROWS) % 10 ** (1 + j % 4)
        words = np.array([f"{kind * 2654435761 % 2**32:08x}" for kind in kinds], dtype=object)
        columns[f"C{j + 1}"] = np.where(rng.rand(N_ROWS) < 0.1, None, words)
    table = pd.DataFrame(columns)
    return table, (rng.rand(N_ROWS) < 0.2 + 0.2 * (table.C1[0] == table.C1)).to_numpy()


def served(predict, rows: list) -> tuple[np.ndarray, np.ndarray]:
    """Predictions of rows one after the other, and the microseconds (of the processor) that each took."""
    predict(rows[0])
    found, times = [], []
    for row in rows:
        start = time.process_time()
        found.append(predict(row)[0])
        times.append(time.process_time() - start)
    return np.array(found), 1e6 * np.array(times)


def main() -> None:
    table, y = clicks()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a few epochs are enough to be served
        model = make_pipeline(TableEncoder(), FactorizationMachineClassifier(max_iter=3, random_state=0)).fit(table, y)
    some = table[:N_SERVED]
    start = time.process_time()
    batch = model.predict_proba(some)
    whole = 1e6 * (time.process_time() - start) / N_SERVED
    print(f"{table.shape[1]} columns, {model[1].n_features_in_:,} features; microseconds for a row:")
    print(f"  in a batch of {N_SERVED:,}: {whole:.1f}")
    kinds = {"dict": some.to_dict("records"), "pandas": [some[i : i + 1] for i in range(N_SERVED)]}
    try:
        import polars
    except ImportError:
        pass
    else:
        frame = polars.DataFrame(some.astype(object).where(some.notna(), None).to_dict("list"))
        kinds["polars"] = [frame[i] for i in range(N_SERVED)]
    for kind, rows in kinds.items():
        found, times = served(model.predict_proba, rows)
        same = np.array_equal(found, batch)
        quantiles = np.percentile(times, [50, 99])
        print(f"  alone, {kind:<7} median {quantiles[0]:5.0f}, 99 of 100 below {quantiles[1]:5.0f}", end="")
        print(", bit-equal to the batch" if same else ", NOT EQUAL TO THE BATCH")
        if not same:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
