"""The page in a real browser."""

import sys

import pytest

from cophenet.report import write_report
from cophenet.tree import Hierarchy

from .made_runs import make_run

EVIL = '<script>document.title="owned"</script>'
PHONE, DESK = {"width": 400, "height": 844}, {"width": 1400, "height": 900}
CONTRASTS = """() => {
  const light = (color) => {
    const parts = color.match(/[\\d.]+/g).slice(0, 3).map((part) => {
      const c = part / 255;
      return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const color = getComputedStyle(e).backgroundColor;
      if (!/, 0\\)$/.test(color)) return color;
    }
  };
  const found = {};
  for (const name of ["p", "h1", "h2", "h3", "a", "td", "th", "dt", "dd", "small", ".caption", ".missing",
                      ".note", ".answer p", ".gap", ".better", ".worse", "select", "summary",
                      "footer p", ".xtick text"]) {
    for (const element of document.querySelectorAll(name)) {
      const style = getComputedStyle(element);
      const ink = element.namespaceURI.endsWith("svg") ? style.fill : style.color;
      const [a, b] = [light(ink), light(behind(element))];
      const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      found[name] = Math.min(found[name] ?? 99, contrast);
    }
  }
  return found;
}"""


@pytest.fixture(scope="module")
def page_url(tmp_path_factory):
    """A page with everything: several runs and seeds, a name that is code, a deeper tree, a fresh run."""
    folder = tmp_path_factory.mktemp("page")
    names = [("bird", EVIL), ("bird", "owl"), ("fish", "eel"), ("fish", "carp with a rather long name")]
    names += [(f"group {g}", f"class {g}.{c}") for g in range(15) for c in range(5)]
    tree = Hierarchy.from_paths(names, level_names=("coarse", "fine"))
    runs = [
        make_run(folder / "flat", objective="flat", seeds=(0, 1), data="cifar100"),
        make_run(folder / "fastft-with-a-name-that-is-long-and-has-no-spaces", seeds=(0, 1), data="cifar100"),
        make_run(folder / "large", objective="emd", tree=tree, samples=316),
        make_run(folder / "fresh", evaluated=False),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "sklearn.manifold", None)
        return write_report(runs, folder / "report.html").as_uri()


@pytest.fixture(scope="module")
def opened(browser, page_url):
    """Opens the page once for each screen, for that takes seconds: a test changes only charts of its own."""
    pages, asked, complaints = {}, [], []

    def open_page(**options):
        options = {"viewport": DESK, "color_scheme": "light", "offline": True, **options}
        key = repr(options)
        if key not in pages:
            context = browser.new_context(**options)
            context.set_default_timeout(120_000)  # busy machines are slow to read the library of charts
            pages[key] = page = context.new_page()
            page.on("request", lambda request: asked.append(request.url))
            page.on("console", lambda message: complaints.append(message.text))
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.goto(page_url)
        return pages[key]

    yield open_page, asked, complaints
    for page in pages.values():
        page.context.close()


@pytest.fixture
def open_page(opened, page_url):
    """Opens the page; afterwards nothing was asked of a network, and nothing complained."""
    open_page, asked, complaints = opened
    yield open_page
    assert {url for url in asked if not url.startswith("data:")} == {page_url}
    assert complaints == []


def chart(kind, data="data1"):
    return f".chart[data-comparison={data}][data-kind={kind}]"


def draw(page, kind, data="data1"):
    """Bring a chart into sight; returns its selector once it is drawn."""
    selector = chart(kind, data)
    page.locator(selector).scroll_into_view_if_needed()
    page.wait_for_selector(f"{selector} .main-svg", state="attached")
    return selector


def test_levels_are_an_axis_and_metrics_are_chosen(open_page):
    page = open_page()
    levels = draw(page, "levels")
    data = f"document.querySelector('{levels} .plot').data"
    assert page.evaluate(f"{data}[0].y") == [0, 0]  # Flat, which the others differ from
    page.select_option(f"{levels} select >> nth=1", "value")
    names = page.evaluate(f"{data}.map((line) => line.name.slice(0, 6))")
    assert names == ["flat", "fastft", "by cha", "always"]
    assert page.evaluate(f"{data}[1].x.length") == 2
    before = page.evaluate(f"{data}[0].y")
    page.select_option(f"{levels} select >> nth=0", index=1)
    assert page.evaluate(f"{data}[0].y") != before


def test_a_run_has_one_colour_in_every_chart(open_page):
    page = open_page()
    levels, metric = draw(page, "levels"), draw(page, "metric")
    lines = page.evaluate(f"document.querySelector('{levels} .plot').data.map((line) => line.line.color)")
    points = page.evaluate(f"document.querySelector('{metric} .plot').data[0].marker.color")
    chips = page.evaluate(
        "[...document.querySelectorAll('#data1 .headline .chip')].map((c) => c.style.background)"
    )
    assert lines[:2] == points == ["#0072b2", "#e69f00"]
    assert chips == ["rgb(0, 114, 178)", "rgb(230, 159, 0)"]


def test_the_tree_zooms_and_shows_the_change_against_flat(open_page):
    page = open_page()
    tree = draw(page, "tree")
    selects = page.query_selector_all(f"{tree} select")
    assert [select.input_value() for select in selects] == ["1", "change"]
    page.select_option(f"{tree} select >> nth=1", "accuracy")
    assert page.evaluate(f"document.querySelector('{tree} .plot').data[0].marker.cmax") == 1
    page.locator(f"{tree} .slice", has_text="loops").click()
    page.wait_for_function(f"document.querySelector('{tree} .plot').data[0].level !== undefined")


def test_the_matrix_names_what_is_zoomed_into(open_page):
    page = open_page()
    matrix = draw(page, "matrix", "data2")
    ticks = f"document.querySelector('{matrix} .plot').layout.xaxis.ticktext.length"
    assert page.evaluate(ticks) == 40
    page.evaluate(
        f"Plotly.relayout(document.querySelector('{matrix} .plot'),"
        "{'xaxis.range[0]': -0.5, 'xaxis.range[1]': 9.5, 'yaxis.range[0]': 9.5, 'yaxis.range[1]': -0.5})"
    )
    page.wait_for_function(f"{ticks} === 10")
    assert page.evaluate(f"document.querySelector('{matrix} .plot').layout.shapes.length") == 2 * 16


def test_the_map_has_every_level(open_page):
    page = open_page()
    points = draw(page, "map")
    groups = f"document.querySelector('{points} .plot').data.length"
    page.select_option(f"{points} select >> nth=1", "digit")
    assert page.evaluate(groups) == 7
    page.select_option(f"{points} select >> nth=1", "shape")
    assert page.evaluate(groups) == 3


def test_the_answer_and_numbers_need_no_scripts(open_page):
    page = open_page(java_script_enabled=False)
    assert page.is_visible("#data1 .answer")
    assert page.is_visible("#data1 .headline")
    assert page.is_visible("noscript p")


def test_a_name_that_is_code_is_only_text(open_page):
    page = open_page()
    tree = draw(page, "tree", "data2")
    assert page.title().endswith("cophenet report")
    assert page.evaluate("document.scripts.length") == 3
    drawn = page.evaluate(f"document.querySelector('{tree} .plot').data[0].customdata")
    assert any("&lt;script&gt;" in name for name in drawn)


@pytest.mark.parametrize("viewport", [PHONE, DESK])
def test_no_screen_scrolls_sideways(open_page, viewport):
    page = open_page(viewport=viewport, color_scheme="dark" if viewport == PHONE else "light")
    for kind in ("levels", "tree", "matrix", "map"):
        draw(page, kind)
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    # Of two runs the page is no longer than a few screens.
    assert page.evaluate("document.querySelector('#data1').offsetHeight") < 6000


def test_print_shows_everything(open_page):
    page = open_page()
    drawn = "[...document.querySelectorAll('.chart:not([hidden]) .plot')].every((p) => p.data)"
    assert not page.evaluate(drawn)  # those that nobody has looked at
    page.set_viewport_size({"width": 688, "height": 972})  # A4 without its margins
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.querySelectorAll('details:not([open])').length") == 0
    assert page.evaluate(drawn)
    assert not any(element.is_visible() for element in page.query_selector_all("nav, .controls"))
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(open_page, scheme):
    page = open_page(viewport=PHONE if scheme == "dark" else DESK, color_scheme=scheme)
    page.set_viewport_size(DESK)
    draw(page, "levels")
    contrasts = page.evaluate(CONTRASTS)
    assert len(contrasts) >= 18
    assert {name: ratio for name, ratio in contrasts.items() if ratio < 4.5} == {}
