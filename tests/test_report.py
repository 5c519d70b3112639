"""Reports: one file that says what is true, holds nothing that runs, and opens in a browser without a complaint."""

import os
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LinearRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from untrained import untrained

import polyfm
from polyfm import (
    FactorizationMachineClassifier,
    FactorizationMachineRegressor,
    PolynomialNetworkClassifier,
    explain,
    interactions,
)
from polyfm.estimators.summary import escaped
from polyfm.reporting import charts
from polyfm.tabular import TableEncoder

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")

EVIL = '<script>alert("1")</script>&\'\x1b\u202e'
VOID = {"meta", "link", "br"}
TIMES = "\N{MULTIPLICATION SIGN}"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
rng = np.random.RandomState(0)
X = rng.standard_normal((60, 5))
Y = X[:, 0] * X[:, 1] + X[:, 2]


class Sound(HTMLParser):
    """Every element is closed in its turn; remembers what there is."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.text, self.attributes = [], [], "", []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.text += data + " "

    @property
    def words(self):
        return " ".join(self.text.split())


def sound(report):
    """The parsed page; it runs nothing and asks for nothing from elsewhere."""
    page = Sound(report.html)
    assert "script" not in page.tags
    assert not {"img", "iframe", "object", "embed", "form"} & set(page.tags)
    for name, value in page.attributes:
        assert not name.startswith("on")
        assert name not in ("href", "src") or value.startswith("data:")
    assert "default-src 'none'" in report.html
    assert "://" not in report.html
    return page


def test_a_regressor_is_told_with_scores_and_its_worst_rows():
    model = untrained(FactorizationMachineRegressor(n_components=3))
    found = polyfm.report(model, X, pandas.Series(Y, name="price"), title="Prices")
    page = sound(found)
    f = model.predict(X)
    for said in (
        "Prices", "predicts price from 5 features", "product of two different features",
        "each feature has 3 hidden traits", "60 rows of 5 columns", "The worst predictions",
        f"RMSE {np.sqrt(np.mean((f - Y) ** 2)):.4g}"[:8],
    ):  # fmt: skip
        assert said in page.words, said
    worst = int(np.argmax(abs(f - Y)))
    assert f"Row {worst}" in page.words
    assert re.findall(r"Row (\d+)", page.words)[0] == str(worst)
    assert len(re.findall(r"Row \d+", page.words)) == 10
    terms = explain(model, X[worst])
    strongest = terms[terms["degree"] > 0].sort_values("contribution", key=abs, ascending=False)["term"].iloc[0]
    card = page.words[page.words.index(f"Row {worst}") :]
    assert strongest.replace(" x ", f" {TIMES} ") in card[:120]
    best = interactions(model, scale=X.std(axis=0), top=1).iloc[0]
    assert f"{best['feature_1']} {TIMES} {best['feature_2']}" in page.words
    assert page.tags.count("svg") >= 6
    assert "How well" not in polyfm.report(model).html  # without rows there are no scores


def test_classifiers_have_calibration_and_a_table_of_errors():
    for cls, classes in ((FactorizationMachineClassifier, ["no", "yes"]), (PolynomialNetworkClassifier, [1, 2, 3])):
        model = untrained(cls(n_components=2), classes=classes)
        y = np.resize(classes, 60)
        page = sound(polyfm.report(model, X, y))
        assert "probability of" in page.words
        loss = log_loss(y, model.predict_proba(X), labels=classes)
        assert f"{loss:.4g}"[:4] in page.words
        correct = int(np.sum(model.predict(X) == y))
        diagonal = re.findall(r"<b>(\d+)</b></td>", polyfm.report(model, X, y).html)
        assert sum(map(int, diagonal)) == correct
    hinge = untrained(FactorizationMachineClassifier(n_components=2, loss="squared_hinge"), classes=["no", "yes"])
    assert "probability" not in sound(polyfm.report(hinge, X, np.resize(["no", "yes"], 60))).words


def test_calibration_is_what_was_observed():
    from polyfm.reporting.contents import Judged

    p = np.repeat([0.1, 0.8], 50)
    y = np.array(["b"] * 5 + ["a"] * 45 + ["b"] * 40 + ["a"] * 10)
    judged = Judged(y, y, np.column_stack([1 - p, p]), {}, {}, p)
    _, bins = judged.calibration(np.array(["a", "b"]))
    assert sum(n for *_, n in bins) == 100
    assert np.isclose(np.mean([part for said, part, _ in bins if said < 0.5]), 0.1)
    assert np.isclose(np.mean([part for said, part, _ in bins if said > 0.5]), 0.8)


def evil_pipeline():
    table = pandas.DataFrame({EVIL: [f"{EVIL}{i % 3}" for i in range(30)], "n": np.arange(30.0)})
    encoder = TableEncoder().fit(table)
    n = len(encoder.get_feature_names_out())
    model = untrained(FactorizationMachineClassifier(n_components=2), n_features=n, classes=[EVIL, "b"])
    return make_pipeline(encoder, model), table, pandas.Series(np.resize([EVIL, "b"], 30), name=EVIL)


def test_text_of_users_stays_text(tmp_path):
    pipeline, table, y = evil_pipeline()
    found = polyfm.report(pipeline, table, y, tmp_path / "evil.html", title=EVIL)
    page = sound(found)
    assert '<script>alert("1")</script>&\'\\x1b\\u202e' in page.text
    assert escaped("\ud800\n<") == "\\ud800 &lt;"
    assert (tmp_path / "evil.html").read_bytes() == found.html.encode()
    assert "<iframe" in found._repr_html_()
    assert "<script" not in found._repr_html_()


def test_sparse_rows_texts_and_frames_of_polars_are_reported():
    from sklearn.feature_extraction.text import CountVectorizer

    model = untrained(FactorizationMachineRegressor(n_components=2, degree=3))
    page = sound(polyfm.report(model, sp.csr_array(np.where(X > 0, X, 0)), Y))
    assert "of 5 features, of which" in page.words
    texts = ["a good film", "a bad film", "good good"] * 5
    vectorizer = CountVectorizer().fit(texts)
    piped = make_pipeline(vectorizer, untrained(FactorizationMachineRegressor(n_components=2), n_features=3))
    assert "bad" in sound(polyfm.report(piped, texts, np.arange(15))).words
    frame = polars.DataFrame({"a": ["x", "y", "x", "x"], "b": [1.0, 2.0, None, 4.0]})
    piped = make_pipeline(
        TableEncoder().fit(frame), untrained(FactorizationMachineRegressor(n_components=2), n_features=4)
    )
    words = sound(polyfm.report(piped, frame, polars.Series("sales", [1, 2, 3, 4]))).words
    assert "predicts sales from 2 columns, which become 4 features" in words
    assert "x (75%), y (25%)" in words


def test_of_a_search_the_model_that_it_found_is_reported():
    from types import SimpleNamespace

    model = untrained(FactorizationMachineRegressor(n_components=2))
    search = SimpleNamespace(best_estimator_=model)
    assert polyfm.report(search, X, Y) == polyfm.report(model, X, Y)


def test_penalties_by_field_and_shares_of_bases_are_told():
    from polyfm.reporting.contents import bases

    model = untrained(FactorizationMachineRegressor(n_components=3, groups=["user", "user", "item", "item", "item"]))
    model.alpha_, model.beta_ = 1.0, np.array([2.0, 2.0, 7.0, 7.0, 7.0])
    page = sound(polyfm.report(model))
    assert "user 2 2 item 3 7" in page.words
    shares, worth = bases(model)
    sizes = np.sum(model.components_**2, axis=1)
    np.testing.assert_allclose(shares, np.sort(sizes / sizes.sum())[::-1])
    assert 1 < worth < 3


def test_what_does_not_fit_is_refused_before_any_work(tmp_path):
    model = untrained(FactorizationMachineRegressor(n_components=2))
    classes = untrained(FactorizationMachineClassifier(n_components=2), classes=["no", "yes"])
    for arguments, words in (
        ((model, None, Y), "y without X"),
        ((model, X, Y[:5]), "y has 5 rows and X has 60"),
        ((model, X, ["a"] * 60), "predicts numbers"),
        ((model, X, np.where(Y > 0, np.nan, Y)), "missing or infinite"),
        ((classes, X, ["other"] * 60), "none of the model's classes, 'no', 'yes', but 'other'"),
        ((model, X, Y, tmp_path / "nowhere" / "r.html"), "cannot be written"),
    ):
        with pytest.raises(ValueError, match=words):
            polyfm.report(*arguments)
    with pytest.raises(TypeError, match="LinearRegression"):
        polyfm.report(LinearRegression(), X, Y)


def test_ticks_are_round_and_within():
    for low, high in ((0, 1), (-3.2, 7.9), (1e-9, 3e-9), (1234567, 1234999), (-1e6, 1e6)):
        found = charts.ticks(low, high)
        assert 2 <= len(found) <= 9
        assert low - 1e-6 * (high - low) <= found[0] < found[-1] <= high + 1e-6 * (high - low)


def test_the_command_writes_a_report_and_replaces_nothing_else(tmp_path):
    pytest.importorskip("click")
    from test_cli import polyfm as command

    table = pandas.DataFrame(X, columns=list("abcde")).assign(price=Y)
    table.to_csv(tmp_path / "t.csv", index=False)
    piped = make_pipeline(
        TableEncoder().fit(table.drop(columns="price")), untrained(FactorizationMachineRegressor(n_components=2))
    )
    model, out = tmp_path / "m.polyfm", tmp_path / "r.html"
    polyfm.save_model(piped, model, table={"target": "price", "text": []})
    command("report", model, tmp_path / "t.csv", "--out", out)
    assert "predicts price from 5 columns" in Sound(out.read_text()).words
    command("report", model, "--out", out, "--title", "Anew")
    assert "Anew" in Sound(out.read_text()).words
    assert "needs a file to read" in command("report", model, "--out", out, "--sep", ";", code=2).output
    out.write_text("<p>mine")
    assert "not a report of polyfm" in command("report", model, "--out", out, code=2).output
    assert "--out report.html" in command("report", model, code=2).output
    assert "ends in .html" in command("report", model, "--out", tmp_path / "r.txt", code=2).output


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium or Chrome")
def test_a_browser_opens_it_without_a_complaint(tmp_path):
    pipeline, table, y = evil_pipeline()
    polyfm.report(pipeline, table, y, tmp_path / "r.html", title="Seen by a browser")
    (tmp_path / "bad.html").write_text('<!doctype html><script>console.error("heard")</script>')
    said = {}
    for name in ("bad", "r"):
        done = subprocess.run(
            [BROWSER, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom",
             f"--user-data-dir={tmp_path / 'profile'}", (tmp_path / f"{name}.html").as_uri()],
            capture_output=True, timeout=120, check=True, env={**os.environ, "HOME": str(tmp_path)},
        )  # fmt: skip
        said[name] = [line for line in done.stderr.decode(errors="replace").splitlines() if ":CONSOLE" in line]
    assert len(said["bad"]) == 1  # complaints are heard
    assert said["r"] == []
    seen = Sound(done.stdout.decode())
    assert "Seen by a browser" in seen.words
    assert "script" not in seen.tags
