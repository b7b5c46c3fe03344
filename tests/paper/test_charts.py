"""Charts of reproduced items, read back from the drawn axes."""

import numpy as np

from cophenet.paper.charts import dots_figure, lines_figure, scatter_figure
from cophenet.paper.figures import dots_panel
from cophenet.report import Cell, Published


def cell(mean, paper=None):
    return Cell(mean, 0.02, "percent", None if paper is None else Published(paper, 0.01, ""))


def drawn(axes):
    """Numbers of every series by row."""
    return [list(np.asarray(container[0].get_xdata(), dtype=float)) for container in axes.containers]


def test_published_numbers_have_axes_of_their_own():
    panel = dots_panel("MAP", ["Flat", "l2"], {"measured": [cell(0.3, 0.8), cell(0.35, 0.9)]})
    ours, paper = dots_figure({"panels": [panel]}).axes
    assert drawn(ours) == [[0.3, 0.35]]
    assert drawn(paper) == [[0.8, 0.9]]
    assert (ours.get_title(loc="left"), paper.get_title(loc="left")) == ("MAP", "MAP, paper")
    for axes in (ours, paper):
        assert [text.get_text() for text in axes.get_yticklabels()] == ["Flat", "l2"]
        bottom, top = axes.get_ylim()
        assert bottom > top  # rows from above


def test_sizes_and_published_ones_may_share_axes():
    panel = dots_panel("sizes", ["cifar10"], {"counted": [cell(4.0, 5.0)]}, log=True, together=True)
    (axes,) = dots_figure({"panels": [panel]}).axes
    assert drawn(axes) == [[4.0], [5.0]]
    assert [c[0].get_markerfacecolor() == "none" for c in axes.containers] == [False, True]


def test_without_published_numbers_there_is_one_line_of_panels():
    panel = dots_panel("MAP", ["Flat"], {"tree": [cell(0.3)], "shuffled tree": [cell(0.2)]})
    (axes,) = dots_figure({"panels": [panel]}).axes
    assert drawn(axes) == [[0.3], [0.2]]


def test_what_was_published_has_the_colour_of_its_series():
    series = {"Flat": [cell(0.3, 0.8)], "Rank": [cell(0.2, 0.7)]}
    ours, paper = dots_figure({"panels": [dots_panel("all", ["sAcc"], series)]}).axes
    colours = [[c[0].get_color() for c in axes.containers] for axes in (ours, paper)]
    assert colours[0] == colours[1]
    assert len(set(colours[0])) == 2
    assert all(c[0].get_markerfacecolor() == "none" for c in paper.containers)


def test_a_control_is_dotted_in_the_colour_of_its_line():
    line = {"name": "l2", "x": ["64", "128"], "y": [0.1, 0.2], "std": None}
    control = {**line, "name": "l2, shuffled tree", "of": "l2", "y": [0.0, None]}
    panel = {"title": "", "x": "", "y": "", "percent": True, "series": [line, control]}
    (axes,) = lines_figure({"panels": [panel]}).axes
    first, second = axes.lines
    assert first.get_color() == second.get_color()
    assert (first.get_linestyle(), second.get_linestyle()) == ("-", ":")
    assert np.isnan(second.get_ydata()[1])


def test_points_of_a_name_look_alike_in_all_panels_and_are_named_once():
    names = [f"objective {place}" for place in range(14)]
    points = [{"name": name, "x": 0.1 * place, "y": 0.2} for place, name in enumerate(names)]
    panels = [{"title": str(i), "x": "", "y": "", "points": points[i:], "fit": None} for i in range(4)]
    figure = scatter_figure({"panels": panels})
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == names
    assert [axes.get_subplotspec().rowspan.start for axes in figure.axes] == [0, 0, 1, 1]
    first, last = figure.axes[0], figure.axes[3]
    for shown, again in zip(first.collections[3:], last.collections, strict=True):
        assert (shown.get_facecolor() == again.get_facecolor()).all()
    assert len({(tuple(c.get_facecolor()[0]), len(c.get_paths()[0].vertices)) for c in first.collections}) > 7


def test_points_of_a_group_share_a_colour_and_no_two_look_alike():
    # More groups than colours, and more points in one than markers.
    names = [("l2", f"l2, weight {n}") for n in range(9)] + [(f"EMD {n}", f"EMD {n}") for n in range(8)]
    points = [{"name": name, "group": group, "x": 0.1 * i, "y": 0.5} for i, (group, name) in enumerate(names)]
    panel = {"title": "", "x": "", "y": "", "points": points, "fit": None}
    (axes,) = scatter_figure({"panels": [panel]}).axes
    looks = [
        (tuple(c.get_edgecolor()[0]), c.get_paths()[0].vertices.tobytes(), len(c.get_facecolor()))
        for c in axes.collections
        if c.get_label().startswith(("l2", "EMD"))
    ]
    assert len(set(looks)) == 17
    assert len({color for color, *_ in looks[:9]}) == 1
    assert looks[9][0] != looks[0][0]
