"""Which IMDB reviews are favourable: the machine beside the linear model that it contains.

POLYFM_DATA=DIR OMP_NUM_THREADS=1 python benchmarks/reviews.py

Counts as they are, or their logarithms (`sublinear_tf`), weighted by tf-idf. Wall seconds; 10 bases.
"""

import time
import warnings

import data
import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from polyfm import FactorizationMachineClassifier

CONTESTANTS = {
    **{f"LogisticRegression, C={C}": lambda C=C: LogisticRegression(C=C, max_iter=1000) for C in (1, 3, 5, 10)},
    "machine, penalties chosen": lambda: FactorizationMachineClassifier(random_state=0),
    "the same, two threads": lambda: FactorizationMachineClassifier(random_state=0, n_jobs=2),
    "machine, alpha=0.4, beta=4": lambda: FactorizationMachineClassifier(alpha=0.4, beta=4, random_state=0),
    "the same on two threads": lambda: FactorizationMachineClassifier(alpha=0.4, beta=4, random_state=0, n_jobs=2),
}


def main() -> None:
    train, test = (sp.load_npz(data.home() / "imdb" / f"{part}_counts.npz").astype(float) for part in ("train", "test"))
    ratings = np.load(data.home() / "imdb" / "ratings.npz")
    y, y_test = ratings["y_train"] >= 7, ratings["y_test"] >= 7
    for sublinear in (False, True):
        tfidf = TfidfTransformer(sublinear_tf=sublinear).fit(train)
        X, X_test = tfidf.transform(train), tfidf.transform(test)
        for name, make in CONTESTANTS.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if "Logistic" not in name:
                    make().set_params(max_iter=1).fit(X, y)  # compiles
                began = time.perf_counter()
                model = make().fit(X, y)
            seconds = time.perf_counter() - began
            p = model.predict_proba(X_test)[:, 1]
            print(
                f"{'logarithms' if sublinear else 'counts'}, {name}: AUC {roc_auc_score(y_test, p):.4f}, log loss "
                f"{log_loss(y_test, p):.4f}, {seconds:.2f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
