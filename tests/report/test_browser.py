"""The page in a real browser."""

import sys

import pytest

from cophenet.report import write_report
from cophenet.tree import Hierarchy

from .made_runs import make_run

EVIL = '<script>document.title="owned"</script>'
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
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
  for (const name of ["p", "h1", "h2", "h3", "a", "td", "th", "dt", "dd", "small", "figcaption", ".missing",
                      ".note", ".star", ".rate", ".switch > label", ".switch > input:checked + label",
                      "figure text", "button", "summary", "footer p"]) {
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
    """A page with everything: several runs and seeds, a name that is code, a closed tree, a fresh run."""
    folder = tmp_path_factory.mktemp("page")
    names = [("bird", EVIL), ("bird", "owl"), ("fish", "eel"), ("fish", "carp with a rather long name")]
    names += [(f"group {g}", f"class {g}.{c}") for g in range(15) for c in range(5)]
    tree = Hierarchy.from_paths(names, level_names=("coarse", "fine"))
    runs = [
        make_run(folder / "flat", objective="flat", seeds=(0, 1), data="cifar100"),
        make_run(folder / "fastft-with-a-name-that-is-long-and-has-no-spaces", data="cifar100"),
        make_run(folder / "large", objective="emd", tree=tree, samples=316),
        make_run(folder / "fresh", evaluated=False),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "umap", None)
        return write_report(runs, folder / "report.html").as_uri()


@pytest.fixture
def opened(browser, page_url):
    """Opens the page; afterwards nothing was asked of a network, and nothing complained."""
    contexts, asked, complaints = [], [], []

    def open_page(**options):
        context = browser.new_context(**{"viewport": DESK, "offline": True, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(page_url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert {url for url in asked if not url.startswith("data:")} == {page_url}
    assert complaints == []


def visible(page, selector):
    return [element.is_visible() for element in page.query_selector_all(selector)]


def test_levels_switch_the_colours(opened):
    page = opened()
    cloud = page.query_selector("#run1 .cloud fieldset")
    assert visible(page, "#run1 .cloud .panel") == [True, False]
    before = cloud.screenshot()
    page.click("label[for=run1-level-2]")
    assert visible(page, "#run1 .cloud .panel") == [False, True]
    assert cloud.screenshot() != before
    page.focus("#run1-level-2")
    page.keyboard.press("ArrowLeft")
    assert visible(page, "#run1 .cloud .panel") == [True, False]
    assert visible(page, "#run2 .cloud .panel") == [True, False]


def test_the_page_works_without_scripts(opened):
    page = opened(java_script_enabled=False)
    page.click("label[for=run1-level-2]")
    assert visible(page, "#run1 .cloud .panel") == [False, True]
    assert not any(visible(page, ".buttons"))


def test_trees_open_and_close(opened):
    page = opened()
    count = "document.querySelectorAll('#run3 .tree details[open]').length"
    assert page.evaluate(count) == 1
    page.click("#run3 button[data-tree=open]")
    assert page.evaluate(count) == 1 + 17
    page.click("#run3 button[data-tree=close]")
    assert page.evaluate(count) == 0


def test_a_name_that_is_code_is_only_text(opened):
    page = opened()
    assert page.title().endswith("cophenet report")
    assert page.evaluate("document.scripts.length") == 1
    assert EVIL in page.text_content("#run3 .tree")


def test_a_phone_never_scrolls_sideways(opened):
    page = opened(viewport=PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    # What is wider scrolls in its own box.
    assert page.evaluate(
        "[...document.querySelectorAll('.scroll')].some((e) => e.scrollWidth > e.clientWidth)"
    )


def test_print_shows_everything(opened):
    page = opened(viewport={"width": 688, "height": 972})  # A4 without its margins
    page.emulate_media(media="print")
    assert all(visible(page, "section, h3, .panel"))
    assert all(visible(page, "#run3 .tree .node"))
    assert not any(visible(page, "nav, .buttons"))
    # No table is cut off at the edge of the sheet.
    edges = page.evaluate(
        "[...document.querySelectorAll('table')].map((t) => t.getBoundingClientRect().right)"
    )
    assert max(edges) <= 688
    assert page.pdf(format="A4").startswith(b"%PDF")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(opened, scheme):
    contrasts = opened(color_scheme=scheme).evaluate(CONTRASTS)
    assert len(contrasts) >= 20
    assert {name: ratio for name, ratio in contrasts.items() if ratio < 4.5} == {}
