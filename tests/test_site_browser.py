"""The built site: its links lead somewhere, and a real browser finds its way, with nothing to complain of."""

import functools
import http.server
import re
import shutil
import subprocess
import sys
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent
EXTRA = 'the site needs `pip install -e ".[docs]"`'
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
LEFT = "net::ERR_ABORTED"  # the page was left before all of it was there
ALLOWED = ("https://keepachangelog.com", "https://semver.org", "https://arxiv.org", "https://onnx.ai")


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.fetched, self.anchors = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors.add(given.get("id"))
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        elif given.get("src") or (tag == "link" and given.get("href")):
            self.fetched.append(given.get("src") or given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as one command builds it, its examples not run."""
    for module in ("sphinx", "pydata_sphinx_theme", "numpydoc", "sphinx_gallery", "myst_parser"):
        pytest.importorskip(module, reason=EXTRA)
    if not (ROOT / "docs" / "conf.py").exists():
        pytest.skip("the pages are not part of this copy")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-qW", "-D", "plot_gallery=0", "-d", out / "doctrees", "docs", out]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def address(site):
    """The site, served to this machine alone."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="a browser is driven by `pip install playwright`")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"there is no browser: none of {', '.join(NAMES)} is installed")
    with api.sync_playwright() as play:
        opened = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def complaints():
    found = []
    yield found
    assert found == []


def watched(browser, address, complaints, width=1280, scheme="light"):
    """A page of the browser that notes errors in its console, and whatever is asked of anyone but the site."""
    page = browser.new_context(viewport={"width": width, "height": 850}, color_scheme=scheme).new_page()
    page.on("console", lambda message: message.type == "error" and complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("requestfailed", lambda r: r.failure == LEFT or complaints.append(f"failed: {r.url}, {r.failure}"))
    page.on("request", lambda r: r.url.startswith((address, "data:")) or complaints.append(f"outside: {r.url}"))
    return page


def test_links_lead_somewhere_and_nothing_is_fetched_from_elsewhere(site):
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html")}
    assert len(pages) > 100
    for path, page in pages.items():
        for link in page.fetched:
            assert not re.match(r"(https?:)?//", link), f"{path} fetches {link}"
        for link in page.links:
            target, anchor = urldefrag(unquote(link))
            if re.match(r"https?:", target):
                assert target.startswith(ALLOWED) or "sphinx" in target or "pydata" in target, f"{path}: {link}"
                continue
            found = (path.parent / target).resolve() if target else path
            assert found.exists(), f"{path}: {link}"
            if anchor and found in pages:
                assert anchor in pages[found].anchors, f"{path}: {link}"


def test_every_public_name_has_its_page_and_its_line_for_programs(site):
    listed = (site / "llms.txt").read_text()
    links = re.findall(r"\]\(([^)]+)\)", listed)
    assert "polyfm.FactorizationMachineRegressor" in listed
    assert all((site / link).exists() for link in links), [link for link in links if not (site / link).exists()]
    text = (site / "api" / "generated" / "polyfm.FactorizationMachineRegressor.html").read_text()
    for word in ("n_components", "components_", "predict", "partial_fit"):
        assert word in text


def test_navigation_leads_through_the_site(browser, address, complaints):
    page = watched(browser, address, complaints)
    page.goto(address)
    titles = page.locator(".bd-header .navbar-nav a.nav-link.nav-internal").all_inner_texts()
    assert {"User guide", "Gallery", "API reference"} <= {title.strip() for title in titles}
    for title in titles:
        page.locator(".bd-header .navbar-nav a.nav-link.nav-internal", has_text=title.strip()).first.click()
        assert page.locator("h1").first.inner_text().rstrip("#").strip() == title.strip()
    page.locator(".bd-header .navbar-nav a", has_text="API reference").first.click()
    page.locator("table.autosummary a", has_text="FactorizationMachineRegressor").first.click()
    assert "n_components" in page.locator("article").inner_text()
    page.goto(address)
    page.locator(".sd-card", has_text="Recommendation").first.click()
    assert page.locator("h1").first.inner_text().startswith("Recommendation")


def test_search_finds_a_word(browser, address, complaints):
    page = watched(browser, address, complaints)
    page.goto(address)
    page.keyboard.press("Control+K")
    page.keyboard.type("penalties")
    page.keyboard.press("Enter")
    page.wait_for_selector("#search-results li")
    page.wait_for_function("!document.querySelector('#search-results .search-summary').innerText.endsWith('...')")
    assert page.locator("#search-results li", has_text="Defaults").count()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_pages_fit_their_screen_and_their_light(browser, address, complaints, width, scheme):
    page = watched(browser, address, complaints, width, scheme)
    for path in (
        "index.html",
        "guide.html",
        "performance.html",
        "coming-from.html",
        "auto_examples/index.html",
        "auto_examples/07_text_with_metadata.html",
        "api/index.html",
        "api/generated/polyfm.FactorizationMachineRegressor.html",
    ):
        page.goto(f"{address}/{path}")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", colour)[:3])) > 384) == (scheme == "light"), (path, colour)


def test_a_phone_has_the_navigation_too(browser, address, complaints):
    page = watched(browser, address, complaints, width=390)
    page.goto(address)
    page.locator("button.primary-toggle").click()
    page.locator(
        "#pst-primary-sidebar-modal a.nav-link, .bd-sidebar-primary a.nav-link", has_text="User guide"
    ).first.click()
    assert page.locator("h1").first.inner_text().startswith("User guide")
