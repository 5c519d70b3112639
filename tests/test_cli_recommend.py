"""``polyfm recommend``: what people type, what they get, and what they are told when it cannot be."""

import json

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("click")
from click.testing import CliRunner

from polyfm.cli.main import cli
from polyfm.modelfile import load_model, save_model
from polyfm.recommend import Recommender

rng = np.random.RandomState(0)
TASTE = rng.randint(3, size=20)
PLAYS = pd.DataFrame(
    [
        (f"{u:03d}", f"{kind}-{i}", rng.randint(1, 9), rng.randint(24))
        for u, kind in enumerate(TASTE)
        for i in rng.permutation(9)[:5]
    ],
    columns=["user", "artist", "count", "hour"],
)


@pytest.fixture
def polyfm(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    PLAYS.to_csv("plays.csv", index=False)
    PLAYS[["user", "hour"]].drop_duplicates("user").head(3).to_csv("u.csv", index=False)

    def run(line, code=0):
        done = CliRunner().invoke(cli, line.split(), standalone_mode=True)
        assert done.exit_code == code, done.output
        return done

    return run


FIT = "recommend fit plays.csv --user user --item artist --implicit --n-components 3 --random-state 0 --model m.polyfm"


def test_from_plays_to_recommendations(polyfm):
    polyfm(FIT)
    polyfm("recommend top m.polyfm --users u.csv --n 2 --out top.csv")
    polyfm("recommend top m.polyfm --users u.csv --n 2 --out top.csv")  # replaces its own
    found = pd.read_csv("top.csv", dtype={"user": str})
    rec = Recommender(item="artist", feedback="implicit", n_components=3, random_state=0).fit(PLAYS)
    pd.testing.assert_frame_equal(found, rec.recommend(["000", "001", "002"], n=2), check_dtype=False)
    assert polyfm("recommend top m.polyfm --user 001 --n 1").stdout.splitlines()[0] == "user,artist,score,rank"
    everyone = polyfm("recommend top m.polyfm --n 1 --include-seen").stdout.splitlines()
    assert len(everyone) == 1 + 20
    pd.DataFrame({"artist": ["0-1", "0-2"]}).to_csv("a.csv", index=False)
    some = polyfm("recommend top m.polyfm --items a.csv --include-seen").stdout.splitlines()
    assert {line.split(",")[1] for line in some[1:]} == {"0-1", "0-2"}
    scores = json.loads(polyfm("recommend evaluate m.polyfm plays.csv --k 3 --json").stdout)
    assert set(scores) == {"model", "popularity"}
    assert "ndcg" in polyfm("recommend evaluate m.polyfm plays.csv").stdout
    assert "Recommender" in polyfm("info m.polyfm").stdout


def test_features_contexts_weights_and_a_score(polyfm):
    pd.DataFrame({"artist": PLAYS.artist.unique()}).assign(kind=lambda t: t.artist.str[0]).to_csv("i.csv", index=False)
    line = f"{FIT} --weight count --context hour --field hour --items i.csv --test-fraction 0.3 --json"
    summary = json.loads(polyfm(line).stdout)
    assert summary["ndcg_at_10"] > 0
    assert load_model("m.polyfm").situation_.columns == ["hour"]
    polyfm("recommend top m.polyfm --users u.csv --out top.csv")
    assert list(pd.read_csv("top.csv").columns) == ["user", "hour", "artist", "score", "rank"]


def test_other_losses(polyfm):
    polyfm(f"{FIT} --loss warp --max-iter 3")
    polyfm("recommend top m.polyfm --n 1 --out top.csv")
    rec = Recommender(item="artist", feedback="implicit", loss="warp", n_components=3, max_iter=3, random_state=0)
    expected = rec.fit(PLAYS).recommend(n=1)
    pd.testing.assert_frame_equal(pd.read_csv("top.csv", dtype={"user": str}), expected, check_dtype=False)


def test_ratings(polyfm):
    done = polyfm("recommend fit plays.csv --item artist --target count --n-components 2 --random-state 0")
    assert "The model was not saved" in done.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("recommend fit plays.csv --item artist", "Name the column of ratings with --target"),
        ("recommend fit plays.csv --item artist --implicit --target count", "has no --target"),
        ("recommend fit plays.csv --item artist --target count --omega 1", "--omega is for --implicit"),
        ("recommend fit plays.csv --item artis --implicit", "Is it 'artist'?"),
        ("recommend fit plays.csv --item artist --implicit --context what", "--context 'what': plays.csv has no such"),
        ("recommend fit plays.csv --item artist --implicit --n-components 0", "--n-components must be"),
        ("recommend fit plays.csv --item artist --implicit --items u.csv", "items has no column 'artist'"),
        ("recommend fit plays.csv --item artist --implicit --model plays.csv", "is DATA itself"),
        ("recommend fit plays.dat --item artist --implicit", "plays.dat"),
        ("recommend top m.polyfm --user nobody", "user='nobody': not known"),
        ("recommend top m.polyfm --user 001 --users u.csv", "both say whom"),
        ("recommend top m.polyfm --out plays.csv", "not a file of predictions or recommendations"),
        ("recommend top other.polyfm", "no Recommender"),
        ("predict m.polyfm plays.csv", "polyfm recommend --help"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_in_one_line(polyfm, line, said):
    if "m.polyfm" in line:
        save_model(
            Recommender(item="artist", feedback="implicit", n_components=2, random_state=0).fit(PLAYS), "m.polyfm"
        )
    if "other" in line:
        from polyfm import TableEncoder

        save_model(TableEncoder().fit(PLAYS), "other.polyfm")
    done = polyfm(line, code=2)
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
