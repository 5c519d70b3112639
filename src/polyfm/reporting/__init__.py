"""Reports: one HTML file that says what a model is, how well it predicts, and why."""

import html
import os
from typing import Any, NamedTuple

from polyfm.files.atomic import Path, writing

__all__ = ["Report", "report"]


class ReportError(ValueError):
    """A report that cannot be written."""


class Report(NamedTuple):
    """A page of HTML that needs nothing else. A notebook shows it."""

    html: str

    def save(self, path: Path) -> None:
        """Write the page, whole or not at all.

        Parameters
        ----------
        path : str or path-like
            Replaced if it exists.
        """
        with writing(path, ReportError) as file:
            file.write(self.html.encode("utf-8", "backslashreplace"))

    def _repr_html_(self) -> str:
        inside = html.escape(self.html, quote=True)
        return f'<iframe srcdoc="{inside}" style="width:100%;height:640px;border:0" sandbox></iframe>'

    def __repr__(self) -> str:
        return f"Report of {len(self.html):,} characters; save(path) writes it, and any browser opens it."


def report(
    model: Any, X: Any = None, y: Any = None, path: Path | None = None, *, title: str | None = None, top: int = 15
) -> Report:
    """A report on a fitted model as one HTML file, to be opened in any browser, sent or printed.

    It says what the model is in words, what the data look like, how training went, how well rows are predicted, with
    calibration (classifiers) or residuals (regressors), which features act together, by name, as a table and as a
    network, and takes the ten worst predictions apart. It has no script and asks for nothing from the network.

    Parameters
    ----------
    model : object
        A fitted estimator of polyfm, or a fitted `Pipeline` that ends in one.
    X : {array-like, sparse matrix, DataFrame, list of str}, default=None
        Rows as `predict` takes them, best those that the model was not trained on. Without, the report is about the
        model alone.
    y : array-like of shape (n_samples,), default=None
        Their targets: scores and the worst predictions need them.
    path : str or path-like, default=None
        A file to write to, replaced if it exists.
    title : str, default=None
        By default the name of the estimator.
    top : int, default=15
        How many interactions to list.

    Returns
    -------
    report : Report
        ``report.html`` is the page, ``report.save(path)`` writes it.

    Examples
    --------
    >>> import polyfm
    >>> from sklearn.datasets import load_diabetes
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> fm = polyfm.FactorizationMachineRegressor(random_state=0).fit(X[:300], y[:300])
    >>> found = polyfm.report(fm, X[300:], y[300:])
    >>> found.html.count("<h2>")
    6
    """
    from polyfm.files.tables import required
    from polyfm.reading.subject import Subject
    from polyfm.reporting import contents, page

    required("pandas", "table", "report")
    if path is not None:
        from polyfm.files.atomic import check_writable

        check_writable(path, ReportError)
    if X is None and y is not None:
        raise ValueError("y without X says nothing: pass the rows that the targets belong to, too.")
    model = getattr(model, "best_estimator_", model)  # of a search, what it has found
    subject = Subject.of(model)
    data = None if X is None else contents.Data.of(subject, X, y)
    judged = contents.Judged.of(model, data) if data is not None and data.y is not None else None
    target = "the target" if data is None else data.target
    sections = [page.opening(title or type(subject.model).__name__, subject, target, judged)]
    if judged is not None:
        sections.append(page.of_scores(subject.model, judged))
    found = contents.strongest(model, subject, data, top)
    sections.append(page.of_interactions(found, data is not None and contents.is_scaled(subject, data)))
    if judged is not None and data is not None:
        sections.append(page.of_worst(contents.worst(model, data, judged), hasattr(subject.model, "classes_")))
    if data is not None:
        sections.append(page.of_data(data))
    sections += [page.of_training(subject.model), page.of_rank(subject)]
    made = Report(page.page(title or type(subject.model).__name__, filter(None, sections)))
    if path is not None:
        made.save(os.fspath(path))
    return made
