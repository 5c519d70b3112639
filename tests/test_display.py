"""Displays: what they show is what they were given, and every label is there."""

import builtins
import copy
import re
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from untrained import untrained

from polyfm import FactorizationMachineClassifier, FactorizationMachineRegressor
from polyfm.display import ConvergenceDisplay, InteractionDisplay, RegularizationPathDisplay
from polyfm.interpretation import interactions

matplotlib = pytest.importorskip("matplotlib")
pd = pytest.importorskip("pandas")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def models():
    models = [untrained(FactorizationMachineRegressor(n_components=2), n_features=6, seed=seed) for seed in (0, 1)]
    models[1].history_ = np.array([4.0, 2.0, 1.8, 1.7])
    return models


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def table(*rows):
    degree = len(rows[0]) - 1
    return pd.DataFrame(list(rows), columns=[*(f"feature_{t + 1}" for t in range(degree)), "weight"])


def drawn(display, tmp_path):
    """The picture can be written: drawing finds errors that plotting alone does not."""
    path = tmp_path / "picture.png"
    display.figure_.savefig(path)
    return path.stat().st_size > 1000


# -- convergence ------------------------------------------------------------------------------------------------------


def test_histories_are_drawn_by_epoch(models, tmp_path):
    display = ConvergenceDisplay.from_estimator(models[0])
    (line,) = display.lines_
    assert_allclose(line.get_xdata(), [1, 2, 3])
    assert_allclose(line.get_ydata(), models[0].history_)
    assert display.ax_.get_xlabel() == "epoch"
    assert "objective" in display.ax_.get_ylabel()
    assert display.ax_.get_legend() is None
    assert drawn(display, tmp_path)


@pytest.mark.parametrize("given", ["dict", "list"])
def test_several_fits_share_the_best(models, given, tmp_path):
    names = ["first", "second"]
    if given == "dict":
        display = ConvergenceDisplay.from_estimator(dict(zip(names, models, strict=True)), relative=True, linewidth=3)
    else:
        display = ConvergenceDisplay.from_estimator(models, names=names, relative=True, linewidth=3)
    best = 1.5
    drawn_values = np.concatenate([line.get_ydata() for line in display.lines_])
    history = np.concatenate([model.history_ for model in models])
    assert_allclose(drawn_values, np.where(history > best, (history - best) / best, np.nan))
    assert display.ax_.get_yscale() == "log"
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == names
    assert display.lines_[0].get_linewidth() == 3
    assert display.lines_[0].get_color() != display.lines_[1].get_color()
    assert drawn(display, tmp_path)


def test_many_lines_differ_in_colour_or_style():
    display = ConvergenceDisplay([[2.0, 1.0]] * 20).plot()
    assert len({(line.get_color(), line.get_linestyle()) for line in display.lines_}) == 20


def test_validation_losses_have_an_axis_of_their_own(models, tmp_path):
    model = copy.copy(models[0])
    model.history_, model.validation_losses_ = np.array([4.0, 3.0, 2.5, 3.0]), np.array([0.9, 0.5, 0.6, 0.7])
    display = ConvergenceDisplay.from_estimator(make_pipeline(StandardScaler(), model))
    (line,), (losses,) = display.lines_, display.validation_lines_
    assert_allclose(line.get_ydata(), [4, 3, 2.5, np.nan])  # the last is that of epoch 2, which was kept
    assert_allclose(losses.get_ydata(), model.validation_losses_)
    assert_allclose(losses.get_xdata(), [1, 2, 3, 4])
    assert losses.get_markevery() == [1]
    assert losses.axes is display.validation_ax_ is not display.ax_
    assert "validation loss" in display.validation_ax_.get_ylabel()
    texts = [text.get_text() for text in display.figure_.legends[0].get_texts()]
    assert texts == ["objective", "validation loss, lowest at the dot"]
    assert drawn(display, tmp_path)
    both = ConvergenceDisplay.from_estimator({"plain": models[1], "held out": model}, relative=True, ax=plt.gca())
    assert len(both.lines_) == 2
    assert [line.get_label() for line in both.validation_lines_] == ["held out, validation"]
    assert both.validation_lines_[0].get_color() == both.lines_[1].get_color()
    assert_allclose(both.lines_[1].get_ydata(), [(h - 1.7) / 1.7 for h in (4.0, 3.0, 2.5, np.nan)])
    assert drawn(both, tmp_path)
    assert ConvergenceDisplay.from_estimator(models[0]).validation_ax_ is None
    with pytest.raises(ValueError, match="validation_losses has 1 entries for 2 histories"):
        ConvergenceDisplay([[1.0], [2.0]], validation_losses=[[1.0]])


def test_convergence_needs_fitted_estimators_and_a_name_for_each(models):
    with pytest.raises(NotFittedError):
        ConvergenceDisplay.from_estimator(FactorizationMachineRegressor())
    with pytest.raises(AttributeError, match="has no `history_`: fit it"):
        ConvergenceDisplay.from_estimator(models[0].to_lifted())  # has another objective, and no history of it
    with pytest.raises(ValueError, match="names has 1 names for 2 histories"):
        ConvergenceDisplay.from_estimator(models, names=["one"])


# -- interactions -----------------------------------------------------------------------------------------------------


def test_heat_map_shows_each_pair_once_with_its_sign(tmp_path):
    display = InteractionDisplay(table(("a", "b", 3.0), ("b", "c", -2.0), ("b", "b", 1.0), ("c", "d", 0.001))).plot()
    mesh = display.ax_.collections[-1]
    shown = mesh.get_array()
    # By strength: b (6), a (3), c (2.001), d.
    assert labels(display.ax_.yaxis) == ["b", "a", "c", "d"]
    assert labels(display.ax_.xaxis) == ["b", "c"]
    assert_allclose(np.ma.filled(shown, np.nan), [[1, np.nan], [3, np.nan], [-2, np.nan], [np.nan, 0.001]])
    assert mesh.get_clim() == (-3.0, 3.0)
    assert {text.get_text() for text in display.ax_.texts} == {"1.00", "3.00", "-2.00", "0.00"}
    assert display.ax_.get_xlabel() == "grey: not among the 4 listed"
    assert drawn(display, tmp_path)


def test_bars_serve_any_degree(tmp_path):
    display = InteractionDisplay(table(("a", "b", "c", 3.0), ("b", "b", "c", -2.0))).plot()
    assert labels(display.ax_.yaxis) == ["a x b x c", "b^2 x c"]
    assert [bar.get_width() for bar in display.ax_.patches] == [3.0, -2.0]
    colours = [bar.get_facecolor() for bar in display.ax_.patches]
    assert colours[0] != colours[1]
    assert display.ax_.get_ylim()[0] > display.ax_.get_ylim()[1]  # the strongest on top
    assert drawn(display, tmp_path)
    with pytest.raises(ValueError, match="kind='heatmap' shows pairs, but the table has degree 3: use kind='bars'"):
        display.plot(kind="heatmap")


def test_interactions_of_an_estimator_are_drawn_into_given_axes(models, tmp_path):
    figure, axes = plt.subplots(1, 3)
    names = [f"f{j}" for j in range(6)]
    pairs = InteractionDisplay.from_estimator(models[0], top=4, feature_names=names, ax=axes[0])
    bars = InteractionDisplay.from_estimator(models[0], top=4, kind="bars", ax=axes[1], scale=np.ones(6))
    linear = InteractionDisplay.from_estimator(models[0], degree=1, ax=axes[2])
    pd.testing.assert_frame_equal(pairs.table, interactions(models[0], top=4, feature_names=names))
    assert pairs.figure_ is figure
    assert [pairs.ax_, bars.ax_, linear.ax_] == list(axes)
    assert bars.ax_.get_xlabel() == "weight of the product x spreads"
    assert linear.ax_.get_xlabel() == "weight"
    assert len(linear.ax_.patches) == 6
    assert drawn(pairs, tmp_path)


def test_many_features_or_few_of_their_pairs_become_bars():
    pairs = table(*((f"a{i}", f"b{i}", 1.0) for i in range(9)))
    display = InteractionDisplay(pairs).plot()
    assert len(display.ax_.patches) == 9
    display = InteractionDisplay(pairs).plot(kind="heatmap")
    assert len(display.ax_.patches) == 0
    assert len(InteractionDisplay(pairs[:4]).plot().ax_.patches) == 4  # 4 of the 28 pairs of 8 features


def boxes(display, texts):
    display.figure_.draw_without_rendering()
    return [text.get_window_extent() for text in texts if text.get_text()]


def overlaps(one, other):
    return one.x0 < other.x1 and other.x0 < one.x1 and one.y0 < other.y1 and other.y0 < one.y1


LONG = "occupation of the customer = administrative assistant no. {}"


@pytest.mark.parametrize("n_features", [5, 30, 300])
@pytest.mark.parametrize("long", [True, False])
@pytest.mark.parametrize("kind", ["heatmap", "bars"])
@pytest.mark.parametrize("given", [True, False])
def test_texts_do_not_collide(n_features, long, kind, given):
    model = untrained(FactorizationMachineRegressor(n_components=2), n_features=n_features)
    names = [LONG.format(j) for j in range(n_features)] if long else None
    ax = plt.subplots(1, 2)[1][0] if given else None
    display = InteractionDisplay.from_estimator(model, top=40, feature_names=names, kind=kind, ax=ax)
    ticks = display.ax_.get_yticklabels()
    assert all(len(tick.get_text()) < 60 for tick in ticks)
    assert len({tick.get_text() for tick in ticks}) == len(ticks)
    for texts in (ticks, display.ax_.texts):
        found = boxes(display, texts)
        assert not any(overlaps(*pair) for pair in combinations(found, 2))
    if kind == "heatmap" and n_features == 5 and not given:
        assert len(display.ax_.texts) == 10
    if not given:  # all of it is in the picture
        page = display.figure_.bbox
        assert all(page.x0 <= box.x0 and box.x1 <= page.x1 for box in boxes(display, ticks))


def test_of_more_bars_than_a_page_holds_the_strongest_are_shown():
    pairs = table(*((f"a{i}", f"b{i}", 1000.0 - i) for i in range(500)))
    display = InteractionDisplay(pairs).plot(kind="bars")
    assert [bar.get_width() for bar in display.ax_.patches] == [1000.0 - i for i in range(100)]
    assert display.ax_.get_xlabel() == "weight of the product\nthe strongest 100 of 500"
    _, ax = plt.subplots(figsize=(3, 2))
    display.plot(kind="bars", ax=ax)
    assert 10 < len(ax.patches) < 40
    assert display.ax_.get_xlabel() == f"weight of the product\nthe strongest {len(ax.patches)} of 500"


def test_weights_are_left_out_of_cells_without_room():
    pairs = table(*((f"a{i}", f"a{j}", 1.0) for i, j in combinations(range(12), 2)))
    _, ax = plt.subplots(figsize=(2.5, 2))
    assert len(InteractionDisplay(pairs).plot(ax=ax).ax_.texts) == 0
    assert len(InteractionDisplay(pairs).plot().ax_.texts) == len(pairs)


@pytest.mark.parametrize("kind", ["heatmap", "bars"])
def test_names_are_no_formulas(kind, tmp_path):
    display = InteractionDisplay(table(("$\\frac$", "two\nlines", 1.0), ("a", "$b", 2.0))).plot(kind=kind)
    assert drawn(display, tmp_path)
    assert "two lines" in " ".join(labels(display.ax_.yaxis) + labels(display.ax_.xaxis))


def test_pipelines_are_drawn_by_their_users_names():
    frame = pd.DataFrame({"sex": ["F", "M", "I"], "age": [1.0, 2.0, 4.0]})
    steps = make_column_transformer((OneHotEncoder(), ["sex"]), (StandardScaler(), ["age"])).fit(frame)
    model = untrained(FactorizationMachineClassifier(n_components=2), n_features=4, classes=["no", "yes"])
    display = InteractionDisplay.from_estimator(make_pipeline(steps, model), kind="bars")
    assert set(labels(display.ax_.yaxis)) == {"sex_F x age", "sex_M x age", "sex_I x age"}
    assert display.ax_.get_xlabel() == "weight of the product, for class yes"
    everything = InteractionDisplay.from_estimator(make_pipeline(steps, model), impossible=True)
    assert len(everything.table) == 6
    assert len(InteractionDisplay.from_estimator(model, X=steps.transform(frame)).table) == 3
    assert len(InteractionDisplay.from_estimator(model, groups=["a", "a", "b", "b"]).table) == 4


def test_classes_are_named_on_the_axis():
    model = untrained(FactorizationMachineClassifier(n_components=2), classes=["no", "yes"])
    display = InteractionDisplay.from_estimator(model, kind="bars")
    assert display.ax_.get_xlabel() == "weight of the product, for class yes"


def test_models_of_zeros_and_bad_kinds():
    display = InteractionDisplay(table(("a", "b", 0.0))).plot()
    assert display.ax_.collections[-1].get_clim() == (-1.0, 1.0)
    with pytest.raises(ValueError, match="kind must be 'auto', 'heatmap' or 'bars', got 'network'"):
        display.plot(kind="network")
    with pytest.raises(ValueError, match="nothing to plot"):
        InteractionDisplay(table(("a", "b", 0.0))[:0]).plot()


# -- regularization path ----------------------------------------------------------------------------------------------


SCORES = np.array([[0.4, 0.6], [0.5, 0.9], [0.1, 0.2]])


def test_path_shows_means_spreads_and_the_choice(tmp_path):
    display = RegularizationPathDisplay([10.0, 1.0, 100.0], SCORES, beta=1.0, score_name="R2").plot()
    assert_allclose(display.line_.get_xdata(), [1, 10, 100])
    assert_allclose(display.line_.get_ydata(), [0.7, 0.5, 0.15])
    band = display.band_.get_paths()[0].vertices
    assert_allclose([band[:, 1].min(), band[:, 1].max()], [0.1, 0.9])
    assert display.ax_.get_xscale() == "log"
    assert display.ax_.get_ylabel() == "R2 on held-out folds"
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == ["mean of 2 folds", "one standard deviation", "chosen: beta = 1"]
    assert drawn(display, tmp_path)


def test_no_penalty_has_a_place_on_the_logarithmic_axis(tmp_path):
    display = RegularizationPathDisplay([0.0, 1.0, 100.0], SCORES).plot()
    assert display.ax_.get_xscale() == "symlog"
    assert drawn(display, tmp_path)


class Searched(FactorizationMachineRegressor):
    """What an estimator that chooses beta by cross-validation leaves behind."""

    scoring = None

    def fit(self, X=None, y=None):
        self.betas_, self.cv_scores_, self.beta_ = np.array([1.0, 10.0, 100.0]), SCORES, 10.0
        return self


@pytest.mark.parametrize(
    ("scoring", "name"), [(None, "$R^2$"), ("neg_mean_squared_error", "neg mean squared error"), (len, "score")]
)
def test_path_of_an_estimator(scoring, name):
    estimator = Searched().fit()
    estimator.scoring = scoring
    display = RegularizationPathDisplay.from_estimator(estimator)
    assert display.score_name == name
    assert display.beta == 10.0
    assert RegularizationPathDisplay.from_estimator(make_pipeline(StandardScaler(), estimator)).beta == 10.0
    assert RegularizationPathDisplay.from_estimator(estimator, score_name="D2").score_name == "D2"


def test_path_says_what_it_needs(models):
    with pytest.raises(AttributeError, match="has no `betas_`: pass one that chooses beta by cross-validation"):
        RegularizationPathDisplay.from_estimator(models[0])
    with pytest.raises(ValueError, match=re.escape("betas has shape (2,) and scores (3, 2)")):
        RegularizationPathDisplay([1.0, 2.0], SCORES)
    with pytest.raises(ValueError, match="betas must be finite numbers >= 0"):
        RegularizationPathDisplay([1.0, -2.0, 3.0], SCORES)


# -- without matplotlib -----------------------------------------------------------------------------------------------


def test_missing_matplotlib_is_named_with_its_remedy(monkeypatch):
    real = builtins.__import__

    def without_matplotlib(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_matplotlib)
    with pytest.raises(ImportError, match=re.escape('pip install "polyfm[plot]"')):
        ConvergenceDisplay([[1.0]]).plot()
