"""A Recommender in a file: the same recommendations, bit for bit, and nothing odd is let in."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from polyfm import FactorizationMachineRegressor, load_model, model_info, save_model
from polyfm.files import container
from polyfm.modelfile import ModelFileError
from polyfm.recommend import Recommender

MODEL = FactorizationMachineRegressor(n_components=2, alpha=0.1, beta=0.1, max_iter=20, tol=1e-2, random_state=0)


@pytest.fixture
def tables(rng):
    when = pd.date_range("2020-01-01", periods=9, freq="40D")
    items = pd.DataFrame({"movie": range(9), "genre": ["a", "b", None] * 3, "year": 1990 + np.arange(9), "out": when})
    users = pd.DataFrame(
        {"user": [f"u{i}" for i in range(12)], "age": rng.uniform(20, 60, 12), "new": [True, False] * 6}
    )
    pairs = rng.permutation(12 * 8)[:60]
    ratings = pd.DataFrame({"user": [f"u{p // 8}" for p in pairs], "movie": pairs % 8, "rating": rng.randint(1, 6, 60)})
    return ratings.assign(hour=rng.randint(24, size=60)), users, items


@pytest.fixture(params=["explicit", "implicit", "explicit ids", "implicit ids"])
def rec(tables, request):
    ratings, users, items = tables
    features = {} if "ids" in request.param else {"users": users, "items": items, "context": ["hour"]}
    if "explicit" in request.param:
        return Recommender(item="movie", estimator=MODEL).fit(ratings, "rating", **features)
    return Recommender(item="movie", feedback="implicit", n_components=2, random_state=0).fit(ratings, **features)


def test_what_was_saved_recommends_and_grows_as_before(rec, tables, tmp_path):
    ratings, users, _ = tables
    path = tmp_path / "m.polyfm"
    save_model(rec, path)
    loaded = load_model(path)
    pd.testing.assert_frame_equal(loaded.recommend(n=5), rec.recommend(n=5))
    pd.testing.assert_frame_equal(loaded.similar_items(3), rec.similar_items(3))
    assert repr(loaded) == repr(rec)
    if len(rec.items_.table.columns) > 1:
        late = {"filter": lambda t: (t.year > 1994) & (t.genre == "a") & (t.out > "2020-02-01"), "exclude_seen": False}
        pd.testing.assert_frame_equal(loaded.recommend("u1", **late), rec.recommend("u1", **late))
    new = ratings[:5].assign(user="new")
    of_user = users[:1].assign(user="new") if rec.users_.has_features else None
    for one in (rec, loaded):
        one.add_users(new.drop_duplicates("movie"), of_user)
    pd.testing.assert_frame_equal(loaded.recommend("new"), rec.recommend("new"))
    save_model(loaded, tmp_path / "again.polyfm")
    save_model(rec, path)
    assert (tmp_path / "again.polyfm").read_bytes() == path.read_bytes()
    info = model_info(path)
    assert (info["class"], info["n_users"], info["n_items"]) == ("Recommender", 13, 9 if of_user is not None else 8)


def test_polars_stays_polars(tables, tmp_path):
    rec = Recommender(item="movie", feedback="implicit", n_components=2, random_state=0).fit(pl.from_pandas(tables[0]))
    save_model(rec, tmp_path / "m.polyfm")
    assert isinstance(load_model(tmp_path / "m.polyfm").recommend(["u1"]), pl.DataFrame)


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("seen.indices", lambda a: a + 100),
        ("seen.indptr", lambda a: a[:-1]),
        ("items.X.data", lambda a: a * np.nan),
        ("items.X.indices", lambda a: -a),
        ("factors1", lambda a: a[:-1]),
        ("items.kinds", lambda a: a + 9),
        ("who", lambda a: a + 1),
        ("what", lambda a: a.astype(np.float64)),
        ("weights.data", lambda a: -a),
        ("users.texts.ends", lambda a: a[:-1]),
        ("items.table1.codes", lambda a: a + 5),
        ("history", lambda a: a[:, None]),
    ],
)  # fmt: skip
def test_odd_arrays_are_refused(tables, tmp_path, name, spoil):
    ratings, users, items = tables
    rec = Recommender(item="movie", feedback="implicit", n_components=2, random_state=0)
    path = tmp_path / "m.polyfm"
    save_model(rec.fit(ratings, users=users, items=items), path)
    header, arrays = container.read(path)
    assert name in arrays
    arrays[name] = np.ascontiguousarray(spoil(arrays[name]))
    if name == "users.texts.ends":
        arrays["users.texts.text"] = arrays["users.texts.text"][:1]
    kept = {key: header[key] for key in ("polyfm_version", "notes", "object")}
    container.write(path, kept, arrays)
    with pytest.raises(ModelFileError, match="does not understand"):
        load_model(path)
