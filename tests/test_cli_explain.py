"""What `polyfm explain` prints of a saved model."""

import json
from decimal import Decimal

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from untrained import untrained

from polyfm import FactorizationMachineClassifier, FactorizationMachineRegressor, save_model
from polyfm.interpretation import explain
from polyfm.tabular import TableEncoder

pd = pytest.importorskip("pandas")
CliRunner = pytest.importorskip("click.testing").CliRunner
cli = pytest.importorskip("polyfm.cli.main").cli
sum_of_terms = pytest.importorskip("polyfm.cli.explain").sum_of_terms


def polyfm(*arguments):
    result = CliRunner().invoke(cli, [str(a) for a in arguments])
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def table():
    rng = np.random.RandomState(0)
    frame = pd.DataFrame(rng.standard_normal((40, 3)), columns=list("abc"))
    return frame.assign(color=rng.choice(["red", "blue", "green"], 40))


@pytest.fixture(scope="module")
def saved(table, tmp_path_factory):
    """Tables and models of random parameters: of numbers, of two classes and of three."""
    folder = tmp_path_factory.mktemp("models")
    table.to_csv(folder / "t.csv", index=False)
    encoder = TableEncoder().fit(table)
    d = len(encoder.get_feature_names_out())
    for name, kind, classes in [
        ("numbers", FactorizationMachineRegressor, None),
        ("two", FactorizationMachineClassifier, ["no", "yes"]),
        ("three", FactorizationMachineClassifier, ["p", "q", "r"]),
    ]:
        model = untrained(kind(n_components=2), n_features=d, classes=classes)
        save_model(make_pipeline(encoder, model), folder / f"{name}.polyfm")
    return folder


def printed_terms(output):
    """The first and the last column of a printed table, below its heading."""
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in output.splitlines() if "│" in line]
    return [(row[0], row[-1]) for row in rows]


@pytest.mark.parametrize("top", [1, 4, 100])
def test_terms_of_a_row_add_up_as_they_are_printed(saved, top):
    model, data = saved / "numbers.polyfm", saved / "t.csv"
    polyfm("predict", model, data, "--out", saved / "p.csv")
    predictions = np.loadtxt(saved / "p.csv", skiprows=1)
    for row in range(12):
        output = polyfm("explain", model, "--data", data, "--row", row, "--top", top).output
        *terms, (last, prediction) = printed_terms(output)
        assert last == "prediction"
        assert terms[0][0] == "intercept"
        assert sum(Decimal(number) for _, number in terms) == Decimal(prediction)
        assert float(prediction) == pytest.approx(predictions[row], abs=1e-3)
        names = [name for name, _ in terms[1:]]
        own = [name for name in names if name not in ("all other terms", "rounding")]
        assert len(own) == (top if top < 10 else 4 + 6)
        assert ("all other terms" in names) == (top < 10)


@pytest.mark.parametrize("size", [1e-30, 1e-9, 1.0, 1e5, 1e22])
def test_sums_of_any_size_add_up(size):
    rng = np.random.RandomState(0)
    for n in range(1, 30):
        contributions = size * rng.standard_normal(n) * np.exp(3 * rng.standard_normal(n))
        terms = pd.DataFrame({"term": [f"t{i}" for i in range(n)], "degree": np.minimum(np.arange(n), 1)})
        terms = terms.assign(value=1.0, weight=contributions, contribution=contributions)
        for top in (2, n):
            printed = sum_of_terms(terms, top, "prediction")["contribution"]
            numbers = [Decimal(text.strip()) for text in printed]
            assert sum(numbers[:-1]) == numbers[-1]
            assert float(numbers[-1]) == pytest.approx(
                contributions.sum(), abs=1e-4 * np.abs(contributions).max() + 1e-20
            )


def test_a_row_is_explained_in_the_columns_of_its_table(saved, table):
    output = polyfm("explain", saved / "numbers.polyfm", "--data", saved / "t.csv", "--row", 3, "--top", 50).output
    assert f"color={table['color'][3]} x a" in output.replace("a x color", "")
    assert f"color = {table['color'][3]}, a = {table['a'][3]:.6g}" in output


def test_classes_have_a_decision_function_and_a_probability(saved, table):
    output = polyfm("explain", saved / "two.polyfm", "--data", saved / "t.csv", "--row", 3).output
    assert "row 3: class yes, probability 0." in output
    *terms, (last, total) = printed_terms(output)
    assert last == "decision function"
    assert sum(Decimal(number) for _, number in terms) == Decimal(total)
    options = ["--data", saved / "t.csv", "--row", 3, "--class", "q"]
    output = polyfm("explain", saved / "three.polyfm", *options).output
    assert "row 3: class q, probability 0." in output
    parts = json.loads(polyfm("explain", saved / "three.polyfm", *options, "--json").output)
    model = untrained(FactorizationMachineClassifier(n_components=2), n_features=6, classes=["p", "q", "r"])
    expected = explain(make_pipeline(TableEncoder().fit(table), model), table.iloc[3], target="q")
    assert sum(part["contribution"] for part in parts) == pytest.approx(expected["contribution"].sum())


def test_only_what_can_occur_is_listed_unless_all_is_asked_for(saved):
    def pairs(*options):
        output = polyfm("explain", saved / "numbers.polyfm", "--top", "1000", "--json", *options).output
        return {(pair["feature_1"], pair["feature_2"]) for pair in json.loads(output)}

    possible, everything = pairs(), pairs("--all")
    colors = {("color=blue", "color=green"), ("color=blue", "color=red"), ("color=green", "color=red")}
    assert everything - possible == colors
    assert len(everything) == 15
    assert pairs("--data", saved / "t.csv") == possible


def test_pairs_that_a_svmlight_file_lacks_are_left_out(tmp_path):
    (tmp_path / "t.svm").write_text("1 1:1 3:1\n2 1:1 4:1\n3 2:1 3:1\n4 2:1 4:1\n")
    save_model(untrained(FactorizationMachineRegressor(n_components=2), n_features=4), tmp_path / "m.polyfm")
    explained = ["explain", tmp_path / "m.polyfm", "--json"]
    assert len(json.loads(polyfm(*explained).output)) == 6
    assert len(json.loads(polyfm(*explained, "--data", tmp_path / "t.svm").output)) == 4
