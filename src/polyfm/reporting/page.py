"""The page of a report: sections of plain HTML, one style sheet, no script."""

from collections.abc import Iterable
from importlib.resources import files
from typing import Any

import numpy as np

import polyfm
from polyfm.estimators.summary import bound_of, facts
from polyfm.estimators.summary import escaped as text
from polyfm.interpretation import monomial
from polyfm.reading.subject import Subject
from polyfm.reporting import charts, contents
from polyfm.reporting.charts import signed as number

LONGEST = 60  # signs of a name
TIMES = " \N{MULTIPLICATION SIGN} "

STYLE = (files(__package__) / "style.css").read_text(encoding="utf-8")


def page(title: str, sections: Iterable[str]) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'img-src data:">\n'
        f'<meta name="generator" content="polyfm {polyfm.__version__}">\n<link rel="icon" href="data:,">\n'
        f"<title>{text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(sections)
        + f"\n<footer>Made by polyfm {polyfm.__version__}. This file needs no network.</footer>"
        + "\n</main>\n</body>\n</html>\n"
    )


def table(head: list[str], rows: Iterable[list[str]], numeric: set[int], names: bool = False) -> str:
    """Cells are HTML already."""

    def line(cells: list[str], tag: str) -> str:
        styled = (f'<{tag} class="n">' if i in numeric else f"<{tag}>" for i in range(len(cells)))
        return "<tr>" + "".join(f"{start}{cell}</{tag}>" for start, cell in zip(styled, cells, strict=True)) + "</tr>"

    body = "".join(line(row, "td") for row in rows)
    style = ' class="names"' if names else ""
    return f'<div class="wide"><table{style}><thead>{line(head, "th")}</thead><tbody>{body}</tbody></table></div>'


def figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{caption}</figcaption></figure>"


def shortened(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST // 2]}\N{HORIZONTAL ELLIPSIS}{name[1 - LONGEST // 2 :]}"


def bar(value: float, most: float) -> str:
    style = "positive" if value >= 0 else "negative"
    return f'<i class="{style}" style="width:{100 * abs(value) / (most or 1.0):.1f}%"></i>'


# -- sections ---------------------------------------------------------------------------------------------------------


def opening(title: str, subject: Subject, target: str, judged: contents.Judged | None) -> str:
    words = "".join(f"<p>{text(sentence)}</p>" for sentence in contents.in_words(subject, target))
    tiles = [] if judged is None else [(name, number(value)) for name, value in judged.scores.items()]
    tiles += [("features", f"{subject.model.n_features_in_:,}"), ("rank", _rank(subject.model))]
    shown = "".join(f'<div class="tile"><b>{value}</b><span>{text(name)}</span></div>' for name, value in tiles)
    about = "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in facts(subject.model))
    return f'<h1>{text(title)}</h1>\n{words}\n<div class="tiles">{shown}</div>\n<dl>{about}</dl>'


def _rank(model: Any) -> str:
    if hasattr(model, "effective_rank_"):
        return f"{number(model.effective_rank_)} effective"
    return " + ".join(str(group.n_bases) for group in model._fitted.model.groups)


def of_data(data: contents.Data) -> str:
    found = ["<h2>The data</h2>", f"<p>{text(data.words())}</p>"]
    columns = data.columns()
    if columns:
        rows = [
            [text(c.name), c.kind, f"{c.distinct:,}", f"{c.missing:,}" if c.missing else "", text(c.values)]
            for c in columns
        ]
        found.append(table(["column", "kind", "distinct", "missing", "values"], rows, {2, 3}))
        if data.X.shape[1] > len(columns):
            found.append(f'<p class="soft">The first {len(columns)} columns are listed.</p>')
    if data.y is not None:
        if data.y.dtype.kind == "f":
            found.append(figure(charts.histogram(data.y, data.target), f"{text(data.target)} in these rows."))
        else:
            labels, counts = np.unique(data.y, return_counts=True)
            order = np.argsort(-counts, kind="stable")[:12]
            picture = charts.bars(counts[order].tolist(), [str(labels[i]) for i in order], "Rows of each class")
            found.append(figure(picture, f"Rows of each class of {text(data.target)}."))
    return "\n".join(found)


def of_training(model: Any) -> str:
    history = getattr(model, "history_", None)
    pictures = []
    if isinstance(history, dict):
        values, name = bound_of(history)
        pictures.append((charts.curve(-np.asarray(values), f"negative {name}"), f"What training raises: the {name}."))
    elif history is not None and len(history) > 1:
        pictures.append((charts.curve(history, "objective"), "What training lowers: loss and penalties."))
    held_out = getattr(model, "validation_losses_", None)
    if held_out is not None and len(held_out) > 1:
        pictures.append((charts.curve(held_out, "held-out loss"), "The loss on rows that were held out of training."))
    if not pictures:
        return ""
    return '<h2>Training</h2>\n<div class="pair">' + "".join(figure(*pair) for pair in pictures) + "</div>"


def of_scores(model: Any, judged: contents.Judged) -> str:
    names = list(judged.scores)
    rows = [[text(name), number(judged.scores[name]), number(judged.without.get(name, np.nan))] for name in names]
    classes = getattr(model, "classes_", None)
    constant = "the mean alone" if classes is None else "shares alone"
    found = [
        "<h2>How well it predicts</h2>",
        f"<p>Scores on the {len(judged.y):,} rows that this report was given. They mean something for new rows if the "
        "model was not trained on these.</p>",
        f'<div class="narrow">{table(["score", "the model", constant], rows, {1, 2})}</div>',
    ]
    if judged.covered is not None:
        found.append(
            f"<p>{judged.covered:.0%} of the targets are within the intervals that are to hold 90% of them.</p>"
        )
    pictures = []
    if classes is None:
        residuals = judged.y - judged.predicted
        sample = f" {charts.MOST_POINTS:,} rows of {len(residuals):,}." if len(residuals) > charts.MOST_POINTS else ""
        pictures.append(
            (charts.scatter(judged.predicted, judged.y), f"On the dashed line, predictions are right.{sample}")
        )
        pictures.append((charts.histogram(residuals, "actual \N{MINUS SIGN} predicted", zero=True), "Errors."))
    elif judged.probabilities is not None:
        name, bins = judged.calibration(classes)
        caption = "On the dashed line, probabilities mean what they say. A dot is a tenth of the rows or so."
        pictures.append((charts.calibration(bins, name), caption))
    confusion = judged.confusion(classes) if classes is not None else []
    inside = "".join(figure(*pair) for pair in pictures)
    if confusion and classes is not None:
        rows = [
            [text(label), *(f"<b>{n:,}</b>" if i == j else f"{n:,}" for j, n in enumerate(counts))]
            for i, (label, counts) in enumerate(confusion)
        ]
        head = ["actual \\ predicted", *(text(label) for label in classes)]
        inside += f"<div>{table(head, rows, set(range(1, len(classes) + 1)))}</div>"
    return "\n".join([*found, f'<div class="pair">{inside}</div>'])


def of_interactions(found: list[contents.Strongest], scaled: bool) -> str:
    parts = ["<h2>What acts together</h2>"]
    units = "times the standard deviations of its features" if scaled else "for features as the model was given them"
    parts.append(
        f"<p>The strongest products of features. A weight is what the product adds to the prediction, {units}; orange "
        "raises it, blue lowers it. Products that no row can have are left out where that is known.</p>"
    )
    for one in found:
        if one.of:
            parts.append(f"<h3>For class {text(one.of)}</h3>")
        most = max((abs(weight) for _, weight, _ in one.rows), default=1.0)
        rows = []
        for names, weight, std in one.rows:
            sure = "" if std is None else f' <span class="soft">\N{PLUS-MINUS SIGN} {number(std)}</span>'
            rows.append(
                [
                    text(monomial([*map(shortened, names)]).replace(" x ", TIMES)),
                    number(weight) + sure,
                    bar(weight, most),
                ]
            )
        listed = table(["product", "weight", ""], rows, {1}, names=True).replace("<td><i", '<td class="bar"><i')
        if not one.rows:
            listed = "<p>There are none.</p>"
        picture = ""
        if one.edges:
            picture = figure(charts.network(one.edges), "The strongest pairs. Thick is strong.")
        if one.singles:
            values = [weight for _, weight in one.singles]
            drawn = charts.bars(values, [name for name, _ in one.singles], "Weights of single features", signs=True)
            picture += figure(drawn, "Weights of single features, for comparison.")
        parts.append(f'<div class="pair"><div>{listed}</div><div>{picture}</div></div>')
    return "\n".join(parts)


def of_rank(subject: Subject) -> str:
    shares, worth = contents.bases(subject.model)
    fields = contents.penalties_by_field(subject)
    parts = []
    if len(shares) > 1:
        names = [f"basis {i + 1}" for i in range(min(len(shares), 12))]
        more = f" The first 12 of {len(shares)}." if len(shares) > 12 else ""
        caption = (
            f"The share of each basis in the size of all.{more} Together they are worth {number(worth)} equal ones."
        )
        parts.append(figure(charts.bars(shares[:12], names, "Shares of the bases"), caption))
    if fields:
        rows = [
            [text(name), f"{n:,}", *("" if v is None else number(v) for v in values)] for name, n, *values in fields
        ]
        parts.append(f"<div>{table(['field', 'features', 'alpha', 'beta'], rows, {1, 2, 3})}</div>")
    if not parts:
        return ""
    title = "Rank and penalties" if fields and len(shares) > 1 else "Penalties by field" if fields else "Rank"
    return f'<h2>{title}</h2>\n<div class="pair">{"".join(parts)}</div>'


def of_worst(found: list[contents.Worst], is_classifier: bool) -> str:
    if not found:
        return "<h2>The worst predictions</h2>\n<p>None of the rows was predicted wrongly.</p>"
    parts = []
    for one in found:
        actual, predicted = (v if is_classifier else number(float(v)) for v in (one.actual, one.predicted))
        most = max((abs(c) for *_, c in one.terms), default=1.0)
        rows = []
        for term, stood, contribution in one.terms:
            stood = ", ".join(part for part in stood.split(", ") if part.replace(" = ", "=") not in term)
            name = text(shortened(term.replace(" x ", TIMES)))
            name += f'<br><span class="soft">{text(shortened(stood))}</span>' if stood else ""
            rows.append([name, number(contribution), bar(contribution, most)])
        listed = table(["", "adds", ""], rows, {1}, names=True).replace("<td><i", '<td class="bar"><i')
        said = f", {text(one.said)}" if one.said else ""
        parts.append(
            f'<div class="card"><h3>Row {one.row:,}</h3><p>predicted <b>{text(predicted)}</b>{said}; '
            f"actual <b>{text(actual)}</b></p>{listed}</div>"
        )
    words = "Rows are counted from 0. Listed is what adds most to the prediction"
    words += ": of the predicted class, or of the second of two." if is_classifier else "."
    return f'<h2>The worst predictions</h2>\n<p>{words}</p>\n<div class="cards">{"".join(parts)}</div>'
