"""Every distance, objective and metric shows its formula and cites where it comes from."""

import inspect
import re

import pytest

import cophenet
from cophenet import metrics, objectives, transport
from cophenet.metrics import streaming
from cophenet.objectives.registry import OBJECTIVES
from cophenet.transport.base import DISTANCES

CITATION = re.compile(r"arXiv:\d{4}\.\d{4,5}|doi:10\.\d{4,}/|ISBN \d|\b[A-Z]{3,} (19|20)\d\d\b")
# All commands of formulas that latex2mathml is known to draw; it draws others, as \arg and \tfrac, as text.
DRAWN = r"""
    \alpha \beta \delta \lambda \mu \rho \theta \varepsilon
    \bar \frac \hat \left \mathrm \operatorname \right \sqrt \text
    \cap \cdot \cos \ge \log \max \mid \min \ne \prod \sum \top
    \, \; \quad \qquad \langle \rangle \|
"""
# Functions that return tensors but only look up labels, or compute any registered distance.
NO_FORMULA = {"level_labels", "class_distances"}


def lacking(member):
    """What the docstring lacks: a displayed formula, a citation."""
    doc = inspect.getdoc(member) or ""
    return [
        what
        for what, there in (("formula", ".. math::" in doc), ("citation", CITATION.search(doc)))
        if not there
    ]


def undrawn(member):
    """The commands in the docstring, whose only backslashes are those of formulas, that are not drawn."""
    return {*re.findall(r"\\(?:[A-Za-z]+|.)", inspect.getdoc(member) or "", re.DOTALL)} - {*DRAWN.split()}


def computed(package):
    """The public functions of a package that return tensors."""
    members = {name: getattr(package, name) for name in package.__all__}
    return {
        name: member
        for name, member in members.items()
        if inspect.isfunction(member)
        and "Tensor" in str(member.__annotations__["return"])
        and name not in NO_FORMULA
    }


MEMBERS = {
    "bottom_up_flow": transport.bottom_up_flow,
    "cpcc": cophenet.cpcc,
    "CPCCLoss": cophenet.CPCCLoss,
    **DISTANCES.members(),
    **OBJECTIVES.members(),
    **{name: getattr(metrics, name) for name in metrics.metric_names()},
    **{
        name: member
        for room in (transport, objectives, metrics, streaming)
        for name, member in computed(room).items()
    },
}


@pytest.mark.parametrize("name", MEMBERS)
def test_formula_and_citation_are_in_the_docstring(name):
    assert not lacking(MEMBERS[name])


@pytest.mark.parametrize("name", MEMBERS)
def test_the_formula_has_no_command_that_the_site_cannot_draw(name):
    assert not undrawn(MEMBERS[name])


def test_no_family_is_left_out():
    assert {"fastft", "hxe", "LevelAccuracy", "level_accuracy", "rank_loss", "stream_cpcc"} <= MEMBERS.keys()


def test_a_docstring_without_them_is_noticed():
    def bare():
        """The rate of Smith 2020."""

    assert lacking(bare) == ["formula", "citation"]
    assert not lacking(metrics.mistake_severity)


def test_a_command_that_is_not_drawn_is_noticed():
    def halved():
        r"""Half of it, :math:`\tfrac{1}{2} \alpha \! \arg`."""

    assert undrawn(halved) == {r"\tfrac", r"\!", r"\arg"}
