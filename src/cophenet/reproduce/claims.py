"""What the paper claims, the item or test that checks each claim, and what was found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cophenet.report.paper import published_tables
from cophenet.reproduce import verdicts
from cophenet.reproduce.verdicts import Judged
from cophenet.training.files import read_json

__all__ = ["CLAIMS", "Claim", "claims_page"]

Check = Callable[[Mapping[str, Any]], Judged | None]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Attributes:
        text: What is claimed, in our words.
        where: Its place in the paper.
        source: Name of the item that checks it, or for proofs the file of tests.
        check: Reads the item's document; None of what it has not measured.
        proved: For proofs: whether the claim is right as it is printed, and why.
    """

    text: str
    where: str
    source: str
    check: Check | None = None
    proved: tuple[Literal["holds", "does not"], str] | None = None


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "EMD of two Gaussians of one covariance is the distance of their means.",
        "prop:emd_gaussian",
        "tests/transport/test_emd.py",
        proved=(
            "holds",
            "A cloud and its translate by s give emd = l2 = |s|; samples of Gaussians only nearly.",
        ),
    ),
    Claim(
        "EMD is at least the distance of the means.",
        "prop:emd_gaussian, proof",
        "tests/reproduce/test_claims.py",
        proved=("holds", "With flow weights: of the weighted means."),
    ),
    Claim(
        "All OT-CPCC distances are bounded below by l2.",
        "sec:forward_generalize",
        "tests/reproduce/test_claims.py",
        proved=(
            "does not",
            "Not SWD, which is usually below l2; with flow weights only by the weighted means.",
        ),
    ),
    Claim(
        "With centroids the optimal CPCC of 1 can never be reached.",
        "sec:forward_generalize",
        "tests/reproduce/test_claims.py",
        proved=(
            "does not",
            "Distances between the leaves of a tree of equal depths are ultrametric and embed exactly in "
            "Euclidean space; it holds for some other trees.",
        ),
    ),
    Claim(
        "On the augmented tree greedy matching (Algorithm 1) and bottom-up matching (Algorithm 2) agree.",
        "prop:fft_alg",
        "tests/transport/test_tree_flow.py",
        proved=("holds", "When both take the samples in the same order."),
    ),
    Claim(
        "EMD's gradient is exact with the plan constant; the plan has at most m + n - 1 entries.",
        "lemma:danskin",
        "tests/transport/test_emd.py, test_solvers.py",
        proved=("holds", "Where the best plan is unique."),
    ),
    Claim("FastFT takes time linear in n.", "prop:fft_alg", "synthetic", verdicts.linear_fastft),
    Claim("EMD takes more than quadratic time in n.", "tab:ot_comparison", "synthetic", verdicts.steep_emd),
    Claim("FastFT is faster than Sinkhorn.", "sec:fft", "synthetic", verdicts.faster_than_sinkhorn),
    Claim(
        "FastFT approximates EMD better than Sinkhorn on mixtures.",
        "fig:synthetic",
        "synthetic",
        verdicts.closer_than_sinkhorn,
    ),
    Claim(
        "On Gaussians all distances but SWD are close to l2.",
        "fig:synthetic",
        "synthetic",
        verdicts.gaussian_agreement,
    ),
    Claim("On mixtures SWD is close to l2, not to EMD.", "fig:synthetic", "synthetic", verdicts.swd_like_l2),
    Claim(
        "CPCC training embeds the tree: TestCPCC far above Flat's.",
        "tab:testcpcc",
        "testcpcc",
        verdicts.above_flat,
    ),
    Claim(
        "On most data sets (5 of 7) an OT distance has the best TestCPCC.",
        "tab:testcpcc",
        "testcpcc",
        verdicts.ot_best,
    ),
    Claim("OT-CPCC is better than l2-CPCC on fine tasks.", "tab:fine", "fine", verdicts.fine_over_l2),
    Claim("OT-CPCC is better than Flat on coarse tasks.", "tab:coarse", "coarse", verdicts.coarse_over_flat),
    Claim(
        "Classes have several modes on most data sets.",
        "fig:CIFAR100-gmm_comparison",
        "modes",
        verdicts.several_modes,
    ),
    Claim("FastFT > EMD > l2 at every batch size.", "fig:cpcc_ablation", "batch-size", verdicts.ordered),
    Claim("FastFT > EMD > l2 at every weight.", "fig:cpcc_ablation", "weight", verdicts.ordered),
    Claim("FastFT > EMD > l2 with every backbone.", "fig:cpcc_ablation", "backbone", verdicts.ordered),
    Claim(
        "CPCC objectives have a higher CPCC than all other hierarchical objectives.",
        "fig:hierarchical-baselines",
        "baselines",
        verdicts.above_baselines,
    ),
    Claim(
        "Higher CPCC goes with better coarse and worse fine metrics.",
        "fig:hierarchical-baselines",
        "scatter",
        verdicts.opposite_trends,
    ),
    Claim("Rank is worse than Flat in every metric.", "tab:rank", "rank", verdicts.rank_worse),
    Claim(
        "Deeper trees are learned as well, at equal accuracy.",
        "tab:tree-depth-tab",
        "tree-depth",
        verdicts.depth_steady,
    ),
    Claim("A subtree of weight 4 lowers CPCC.", "tab:tree-weight-tab", "tree-weights", verdicts.weights_drop),
    Claim(
        "With distance flow weights the tree is hardly recovered.",
        "tab:comparison_colored_normalized",
        "flow-weights",
        verdicts.distance_collapses,
    ),
    Claim(
        "An epoch with FastFT is faster than with EMD.",
        "tab:ot-wallclock",
        "epoch-time",
        verdicts.epoch_times,
    ),
    Claim("Bures is prohibitively expensive.", "tab:bures-others", "batch-time", verdicts.bures_cost),
    Claim(
        "(Beyond the paper) The knowledge in the tree helps, not the regularizer alone.",
        "-",
        "shuffled",
        verdicts.tree_helps,
    ),
    Claim(
        "(Beyond the paper) Principal order brings FastFT closer to EMD.",
        "-",
        "orders",
        verdicts.principal_closer,
    ),
)


def _judge(claim: Claim, folder: Path) -> tuple[str, str]:
    """What was measured, and the verdict."""
    if claim.proved is not None:
        return claim.proved[1], claim.proved[0]
    path = folder / claim.source / f"{claim.source}.json"
    if not path.is_file() or claim.check is None:
        return "not measured yet", "needs a GPU at the paper's scale"
    document = read_json(path)
    judged = claim.check(document)
    if judged is None:
        return "runs are missing", "needs a GPU at the paper's scale"
    return f"{judged.measured} ({document['scale']} scale)", "holds" if judged.holds else "does not"


def claims_page(folder: Path) -> str:
    """The page of claims, filled from the documents of items.

    Args:
        folder: Where items were written to.

    Example:
        >>> "FastFT takes time linear in n." in claims_page(Path("/nowhere"))
        True
    """
    lines = ["# Claims of the paper, and what was found", ""]
    lines += [
        "Verdicts compare means, without regard to their spread over seeds, at the scale that is named: a "
        "small difference of a few runs decides nothing about the paper's own. Proofs name their tests.",
        "",
    ]
    lines.append("| claim | in the paper | checked by | measured | verdict |")
    lines.append("|:--|:--|:--|:--|:--|")
    for claim in CLAIMS:
        measured, verdict = _judge(claim, folder)
        lines.append(f"| {claim.text} | {claim.where} | {claim.source} | {measured} | {verdict} |")
    lines += ["", "## Published cells that contradict another table, or themselves", ""]
    for table in published_tables().values():
        cells = (cell for row in table.rows for cell in row.values.values())
        for note in dict.fromkeys(cell.note for cell in cells if cell.note):
            lines.append(f"- {table.label}: {note}")
    return "\n".join([*lines, ""]).replace("|s|", "the length of s")
