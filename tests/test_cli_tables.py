"""The command line and tables as people have them: other separators, dates, identifiers, columns in any order."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("click")
from click.testing import CliRunner

from polyfm.cli.columns import examine
from polyfm.cli.main import cli
from polyfm.modelfile import load_model, model_info

QUICK = ["--max-iter", "5", "--random-state", "0", "--tol", "0.9"]
rng = np.random.RandomState(0)
N = 80
TABLE = pd.DataFrame(
    {
        "user": rng.randint(1, 9, N),
        "zip": rng.choice(["007", "7", "070"], N),
        "genre": rng.choice(["drama", "comedy", "war"], N),
        "age": np.where(rng.rand(N) < 0.1, np.nan, rng.randint(18, 70, N)),
        "when": pd.date_range("2026-01-01", periods=N, freq="7h").strftime("%Y-%m-%d %H:%M"),
        "rating": rng.randint(1, 6, N) + 0.5,
        "likes": rng.choice(["no", "yes"], N),
    }
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    TABLE.to_csv("t.csv", index=False)
    return tmp_path


def polyfm(*words, code=0):
    result = CliRunner().invoke(cli, [str(word) for word in words])
    assert result.exit_code == code, result.output
    return result


def fit(*words, code=0):
    return polyfm("fit", *words, *QUICK, code=code)


def notes(result) -> list[str]:
    return [line for line in result.stderr.splitlines() if line.startswith("Note: ") and "converged" not in line]


def rows(text: str) -> list[list[str]]:
    return list(csv.reader(text.splitlines()))


@pytest.fixture
def model(here):
    fit("t.csv", "--target", "rating", "--field", "user", "--text", "zip", "--drop", "likes", "--model", "m.polyfm")
    return "m.polyfm"


# -- prediction -------------------------------------------------------------------------------------------------------


def test_columns_are_matched_by_name_and_others_are_ignored_with_one_note(here, model):
    TABLE[["when", "age", "genre", "zip", "user"]].to_csv("plain.csv", index=False)
    TABLE.assign(more="x")[["more", "likes", "user", "rating", "age", "zip", "when", "genre"]].to_csv(
        "odd.csv", index=False
    )
    plain, odd = polyfm("predict", model, "plain.csv"), polyfm("predict", model, "odd.csv")
    assert odd.stdout == plain.stdout
    assert notes(plain) == []
    assert notes(odd) == ["Note: odd.csv has 'more', 'likes', 'rating', which the model does not use: ignored."]
    expected = load_model(model).predict(TABLE.assign(zip=TABLE.zip)[list(load_model(model).feature_names_in_)])
    assert [float(row[0]) for row in rows(plain.stdout)[1:]] == expected.tolist()


def test_text_of_training_is_text_in_prediction(here, model):
    """Where all zips of a file look like numbers, 007 is not 7."""
    TABLE[TABLE.zip == "007"].to_csv("some.csv", index=False)
    whole = np.array(rows(polyfm("predict", model, "t.csv").stdout)[1:])[TABLE.zip == "007"].tolist()
    assert rows(polyfm("predict", model, "some.csv").stdout)[1:] == whole


def test_evaluate_remembers_the_target(here, model):
    assert model_info(model)["table"]["target"] == "rating"
    remembered = polyfm("evaluate", model, "t.csv", "--json").stdout
    assert remembered == polyfm("evaluate", model, "t.csv", "--target", "rating", "--json").stdout
    TABLE.rename(columns={"rating": "stars"}).to_csv("renamed.csv", index=False)
    assert "no column 'rating' to predict" in polyfm("evaluate", model, "renamed.csv", code=2).stderr
    assert polyfm("evaluate", model, "renamed.csv", "--target", "stars", "--json").stdout == remembered


def test_columns_are_kept_as_they_stand(here, model):
    table = TABLE.assign(id=[f"{i:03d}" for i in range(N)], remark=['a "b", c', "", "d\ne", "NA"] * (N // 4))
    table.to_csv("t.csv", index=False)
    polyfm("predict", model, "t.csv", "--keep", "id", "--keep", "remark", "--keep", "rating", "--out", "p.csv")
    with open("p.csv", newline="") as file:
        found = list(csv.reader(file))
    assert found[0] == ["id", "remark", "rating", "prediction"]
    assert [row[0] for row in found[1:]] == table.id.tolist()
    assert [row[1] for row in found[1:5]] == ['a "b", c', "", "d\ne", ""]  # NA is a gap
    assert [float(row[2]) for row in found[1:]] == table.rating.tolist()
    polyfm("predict", model, "t.csv", "--keep", "id", "--out", "p.csv")  # replaces a file of predictions
    Path("p.csv").write_text("id,prediction,mine\n1,2,3\n")
    assert "not a file of predictions" in polyfm("predict", model, "t.csv", "--out", "p.csv", code=2).stderr


def test_classes_come_with_their_probabilities(here):
    fit("t.csv", "--target", "likes", "--drop", "rating", "--model", "c.polyfm")
    found = rows(polyfm("predict", "c.polyfm", "t.csv", "--keep", "user").stdout)
    assert found[0] == ["user", "prediction", "p(no)", "p(yes)"]
    for _, label, no, yes in found[1:]:
        assert label == ("yes" if float(yes) > float(no) else "no")
        assert abs(float(no) + float(yes) - 1) < 1e-12
    assert rows(polyfm("predict", "c.polyfm", "t.csv", "--no-proba").stdout)[0] == ["prediction"]
    assert rows(polyfm("predict", "c.polyfm", "t.csv", "--proba").stdout)[0] == ["p(no)", "p(yes)"]


def test_models_with_transformers_of_scikit_learn_are_served(here):
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    from polyfm import FactorizationMachineRegressor
    from polyfm.modelfile import save_model

    encoder = make_column_transformer((OneHotEncoder(), ["genre"]), (StandardScaler(), ["user"]))
    machine = FactorizationMachineRegressor(max_iter=5, tol=0.9, random_state=0)
    pipeline = make_pipeline(encoder, machine).fit(TABLE[["genre", "user"]], TABLE.rating)
    save_model(pipeline, "s.polyfm", table={"target": "rating"})
    found = rows(polyfm("predict", "s.polyfm", "t.csv").stdout)[1:]
    assert [float(row[0]) for row in found] == pipeline.predict(TABLE).tolist()
    polyfm("evaluate", "s.polyfm", "t.csv")
    assert "genre" in polyfm("explain", "s.polyfm", "--data", "t.csv", "--row", "3").stdout


def test_the_terms_of_a_prediction_add_up_as_printed(here, model):
    printed = polyfm("explain", model, "--data", "t.csv", "--row", "5", "--top", "2").stdout
    lines = [line.split("│") for line in printed.splitlines() if line.startswith("│")]
    parts = [float(cells[-2]) for cells in lines]
    assert "all other terms" in lines[-2][1]
    assert abs(sum(parts[:-1]) - parts[-1]) < 2e-3 * max(map(abs, parts))
    prediction = float(rows(polyfm("predict", model, "t.csv").stdout)[6][0])
    assert abs(parts[-1] - prediction) < 1e-3 * abs(prediction)


# -- how files are written --------------------------------------------------------------------------------------------


def test_other_separators_decimals_and_encodings_are_read(here, model):
    table = TABLE.assign(genre=TABLE.genre.replace("drama", "é"), age=TABLE.age + 0.25)
    table.to_csv("t.csv", index=False)
    table.to_csv("t.txt", index=False, sep=";", decimal=",", encoding="cp1252")
    options = ["--format", "csv", "--sep", ";", "--decimal", ",", "--encoding", "cp1252"]
    words = ["--target", "rating", "--text", "zip", "--json"]
    first, second = fit("t.csv", *words), fit("t.txt", *words, *options, "--model", "o.polyfm")
    a, b = json.loads(first.stdout), json.loads(second.stdout)
    assert a["objective"] == b["objective"]
    assert a["columns"] == b["columns"]
    assert polyfm("predict", "o.polyfm", "t.csv").stdout == polyfm("predict", "o.polyfm", "t.txt", *options).stdout
    assert "is not UTF-8" in fit("t.txt", *words, *options[:-2], code=2).stderr
    assert "--sep ';'" in fit("t.txt", *words, "--format", "csv", "--encoding", "cp1252", code=2).stderr
    TABLE.to_csv("t.txt", index=False, sep="\t", encoding="utf-16")
    fit("t.txt", *words, "--format", "csv", "--sep", "tab", "--encoding", "utf-16")


def test_numbers_with_a_comma_are_pointed_out(here):
    TABLE.to_csv("t.csv", index=False, sep=";", decimal=",")
    found = notes(fit("t.csv", "--target", "likes", "--sep", ";", "--drop", "zip"))
    assert found == [
        "Note: column 'user' is taken for a quantity. If its numbers name things, such as users, say --field user.",
        "Note: columns 'age', 'rating' are taken for text, one feature a value, because of commas in numbers. Say "
        "--decimal , if they are for decimals, or --text age --text rating if text is meant.",
    ]


def test_columns_of_one_name_are_told_apart(here):
    lines = Path("t.csv").read_text().splitlines()
    Path("t.csv").write_text("\n".join(["user,zip,user,age,when,rating,likes", *lines[1:]]))
    found = fit("t.csv", "--target", "rating", "--model", "d.polyfm")
    assert "several columns named 'user'; from the second on, they are called 'user.1'" in notes(found)[0]
    assert list(load_model("d.polyfm").feature_names_in_)[:3] == ["user", "zip", "user.1"]
    assert len(rows(polyfm("predict", "d.polyfm", "t.csv").stdout)) == N + 1
    dropped = json.loads(fit("t.csv", "--target", "rating", "--drop", "user.1", "--json").stdout)
    assert [column["name"] for column in dropped["columns"]][:3] == ["user", "zip", "age"]


def test_an_index_without_a_name_is_left_out(here, model):
    TABLE.to_csv("t.csv", index=True)
    words = ["--target", "rating", "--text", "zip", "--json"]
    found = fit("t.csv", *words, "--model", "i.polyfm")
    assert "'Unnamed: 0' has no name and a value of its own in every row" in notes(found)[0]
    assert "Unnamed: 0" not in load_model("i.polyfm").feature_names_in_
    assert len(rows(polyfm("predict", "i.polyfm", "t.csv").stdout)) == N + 1


# -- what is made of columns ------------------------------------------------------------------------------------------


def test_what_was_made_of_each_column_is_printed(here):
    words = ["t.csv", "--target", "rating", "--field", "user", "--drop", "likes"]
    printed = fit(*words)
    for text in ("taken for", "distinct", "missing", "when", "date", "category", "number"):
        assert text in printed.stderr
    assert "taken for" not in printed.stdout
    columns = {c["name"]: c for c in json.loads(fit(*words, "--json", "--test-fraction", 0).stdout)["columns"]}
    assert list(columns) == ["user", "zip", "genre", "age", "when"]
    assert columns["user"] == {"name": "user", "kind": "category", "distinct": 8, "missing": 0, "features": 8}
    missing = int(TABLE.age.isna().sum())
    assert columns["age"] == {
        "name": "age", "kind": "number", "distinct": TABLE.age.nunique(), "missing": missing, "features": 2,
    }  # fmt: skip
    assert columns["when"]["kind"] == "date"
    assert columns["when"]["features"] == 1 + 7 + 24


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ([f"order {i}" for i in range(N)], "'c' has a text of its own in most rows.*--drop c"),
        (["same"] * N, "'c' is the same in all rows"),
        ([None] * N, "'c' is the same in all rows"),
        (np.arange(N), "'c' numbers the rows.*--drop c"),
        (rng.permutation(np.arange(N)) + 500, "'c' numbers the rows"),
        (
            np.repeat(["1.5", "2", "n/k", "4"], N // 4),
            "'c' is taken for text, one feature a value, because of 'n/k' in row",
        ),
        (["01/02/2026", "03/04/2026"] * (N // 2), "'c' holds dates that can be read in more than one way.*left out"),
    ],
)
def test_columns_that_look_like_a_mistake_are_noted(column, words, capsys):
    examine(pd.DataFrame({"c": column, "other": TABLE.genre}), (), ())
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    import re

    assert re.match(f"Note: column {words}", said[0]), said


@pytest.mark.parametrize(
    ("name", "column", "noted"),
    [
        ("user_id", [3, 8] * 40, True), ("UserID", [3, 8] * 40, True), ("id", [3, 8] * 40, True),
        ("zip", [3.0, np.nan, 4.0, 3.0] * 20, True), ("user", [3, 8] * 40, True),
        ("n", list(range(1, 101)) * 2, True),  # all of them, one after the other
        ("n", [3, 8] * 40, False), ("paid", [3, 8] * 40, False), ("humid", [3, 8] * 40, False),
        ("id", [0.5, 1.5] * 40, False), ("age", list(range(18, 118)) * 2, False),
    ],
)  # fmt: skip
def test_numbers_that_name_things_are_pointed_out(name, column, noted, capsys):
    table = pd.DataFrame({name: column})
    examine(table, (), ())
    assert (f"say --field {name}" in capsys.readouterr().err) == noted
    examine(table, (name,), ())
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("texts", "layout"),
    [
        (["2026-01-31", "2026-02-01"], None),
        (["2026-01-31T10:00:00Z", "2026-02-01 10:00:00.5+02:00"], None),
        (["31.01.2026", "01.02.2026"], "%d.%m.%Y"),
        (["01/31/2026 10:00", "02/01/2026 11:30"], "%m/%d/%Y %H:%M"),
        (["01-Jan-1995", "12-Dec-2001"], "%d-%b-%Y"),
        (["1-2", "3-4"], "none"),
        (["2026-13-45", "2026-02-01"], "none"),
        (["192.168.1.1", "10.0.0.1"], "none"),
    ],
)
def test_dates_are_recognised_by_how_they_are_written(texts, layout):
    found = examine(pd.DataFrame({"c": texts * 20}), (), ())
    assert found.dates == ({} if layout == "none" else {"c": layout})
    assert examine(pd.DataFrame({"c": texts * 20}), (), ("c",)).dates == {}


def test_dates_of_a_file_are_learned_from_and_read_again(here):
    TABLE.assign(when=pd.to_datetime(TABLE.when).dt.strftime("%d.%m.%Y %H:%M")).to_csv("t.csv", index=False)
    fit("t.csv", "--target", "rating", "--drop", "zip", "--model", "m.polyfm")
    names = load_model("m.polyfm")[0].get_feature_names_out()
    assert {"when", "when.weekday=Mon", "when.hour=7"} <= set(names)
    polyfm("predict", "m.polyfm", "t.csv")
    TABLE.assign(when="soon").to_csv("t.csv", index=False)
    assert "'when' holds something that is no date" in polyfm("predict", "m.polyfm", "t.csv", code=2).stderr


def test_rare_values_and_large_vocabularies(here):
    words = ["t.csv", "--target", "rating", "--field", "user", "--drop", "likes", "--model", "m.polyfm"]
    fit(*words, "--min-frequency", 40)
    assert "genre is rare" in load_model("m.polyfm")[0].get_feature_names_out()
    fit(*words, "--buckets", 4)
    assert "user#3" in load_model("m.polyfm")[0].get_feature_names_out()


def test_what_was_chosen_for_the_penalties_is_printed(here):
    class Chosen:
        alpha, beta, alpha_, beta_ = "auto", "auto", 2.0, 3.0
        degrees_, solver_, n_iter_ = np.array([2, 2]), "cd", 5

    from polyfm.cli.models import described

    assert (described(Chosen())["alpha"], described(Chosen())["beta"]) == (2.0, 3.0)
