"""Claims of the paper that are measured, with the items that do so, and two that go beyond it."""

from __future__ import annotations

from cophenet.paper import (
    verdicts_features,
    verdicts_runs,
    verdicts_studies,
    verdicts_synthetic,
    verdicts_tables,
)
from cophenet.paper.claim import Claim
from cophenet.paper.variants import PAPER_DATA

__all__ = ["MEASURED"]

# The tables of generalisation have the four BREEDS settings as one.
_TABLES = ("cifar10", "cifar100", "inat21-mini", "breeds")
_TIMED = ("cifar10", "inat21-mini")

_SYNTHETIC: tuple[Claim, ...] = (
    Claim("FastFT takes time linear in n.", "prop:fft_alg", "synthetic", verdicts_synthetic.linear_fastft),
    Claim(
        "EMD takes more than quadratic time in n (the paper: cubic).",
        "introduction, tab:ot_comparison",
        "synthetic",
        verdicts_synthetic.steep_emd,
    ),
    Claim(
        "No distance grows faster with n than the table of complexities says.",
        "tab:ot_comparison",
        "synthetic",
        verdicts_synthetic.within_bounds,
    ),
    Claim(
        "FastFT is faster than Sinkhorn.",
        "fig:synthetic",
        "synthetic",
        verdicts_synthetic.faster_than_sinkhorn,
    ),
    Claim("FastFT is the fastest OT distance.", "abstract, sec:fft", "synthetic", verdicts_synthetic.fastest),
    Claim(
        "In practice time grows with a lower power of n for l2 than for FastFT, though both are linear.",
        "app:time-complexity",
        "synthetic",
        verdicts_synthetic.l2_scales_better,
    ),
    Claim(
        "FastFT approximates EMD better than Sinkhorn on mixtures.",
        "fig:synthetic",
        "synthetic",
        verdicts_synthetic.closer_than_sinkhorn,
    ),
    Claim(
        "On Gaussians all distances but SWD are close to l2.",
        "fig:synthetic",
        "synthetic",
        verdicts_synthetic.gaussian_agreement,
    ),
    Claim(
        "On mixtures the OT distances differ notably from l2.",
        "fig:synthetic",
        "synthetic",
        verdicts_synthetic.mixture_differs,
    ),
    Claim(
        "On mixtures SWD is close to l2, not to EMD.",
        "fig:synthetic",
        "synthetic",
        verdicts_synthetic.swd_like_l2,
    ),
    Claim(
        "Bures is prohibitively expensive.", "tab:bures-others", "batch-time", verdicts_synthetic.bures_cost
    ),
    Claim(
        "A batch takes longer with Bures than with EMD, and with EMD than with l2.",
        "tab:bures-others",
        "batch-time",
        verdicts_synthetic.emd_slower_than_l2,
    ),
    Claim(
        "An epoch with FastFT is faster than with EMD.",
        "tab:ot-wallclock",
        "epoch-time",
        verdicts_studies.epoch_over_emd,
        data=_TIMED,
    ),
    Claim(
        "An epoch with FastFT is faster than with Sinkhorn and SWD.",
        "tab:ot-wallclock",
        "epoch-time",
        verdicts_studies.epoch_over_others,
        data=_TIMED,
    ),
    Claim(
        "An epoch with FastFT is not much slower than with l2.",
        "tab:ot-wallclock",
        "epoch-time",
        verdicts_studies.epoch_like_l2,
        data=_TIMED,
    ),
)

_MAIN: tuple[Claim, ...] = (
    Claim(
        "The data sets have the sizes of the table.",
        "tab:data-stats",
        "data",
        verdicts_runs.data_sizes,
    ),
    Claim(
        "CPCC training embeds the tree: TestCPCC far above Flat's.",
        "tab:testcpcc",
        "testcpcc",
        verdicts_runs.above_flat,
        data=PAPER_DATA,
    ),
    Claim(
        "On most data sets (5 of 7) an OT distance has the best TestCPCC.",
        "tab:testcpcc",
        "testcpcc",
        verdicts_runs.ot_best,
        data=PAPER_DATA,
    ),
    Claim(
        "OT-CPCC is better than l2-CPCC on fine tasks.",
        "tab:fine",
        "fine",
        verdicts_tables.fine_over_l2,
        data=_TABLES,
    ),
    Claim(
        "OT-CPCC is better than Flat on coarse tasks.",
        "tab:coarse",
        "coarse",
        verdicts_tables.coarse_over_flat,
        data=_TABLES,
    ),
    Claim(
        "FastFT is competitive on fine tasks, in every metric.",
        "abstract",
        "fine",
        verdicts_tables.competitive,
        data=_TABLES,
    ),
    Claim(
        "FastFT is competitive on coarse tasks, in every metric.",
        "abstract",
        "coarse",
        verdicts_tables.competitive,
        data=_TABLES,
    ),
    Claim(
        "Flat is the upper bound of fine metrics.",
        "tab:fine-detail",
        "fine",
        verdicts_tables.flat_bounds,
        data=_TABLES,
    ),
    Claim(
        "l2 is the upper bound of coarse metrics.",
        "tab:coarse-detail",
        "coarse",
        verdicts_tables.l2_bounds,
        data=_TABLES,
    ),
    Claim(
        "EMD separates fine classes better than l2.",
        "fig:umap",
        "fine",
        verdicts_tables.emd_separates,
        data=_TABLES,
    ),
    Claim(
        "l2 groups coarse classes more clearly than EMD.",
        "fig:umap",
        "umap",
        verdicts_features.clearer_groups,
    ),
    Claim(
        "Classes have several modes on most data sets.",
        "fig:CIFAR100-gmm_comparison",
        "modes",
        verdicts_features.several_modes,
        data=PAPER_DATA,
    ),
    Claim(
        "Classes have several modes with every OT objective too.",
        "fig:CIFAR100-gmm_comparison",
        "modes",
        verdicts_features.modes_with_all,
    ),
    Claim(
        "Classes of BREEDS have the fewest modes, which is why OT gains less there.",
        "sec:interpretability",
        "modes",
        verdicts_features.breeds_least,
        data=PAPER_DATA,
        gpu="all",
    ),
    Claim(
        "CPCC objectives have a higher CPCC than all other hierarchical objectives.",
        "fig:hierarchical-baselines",
        "baselines",
        verdicts_runs.above_baselines,
    ),
    Claim(
        "Higher CPCC goes with better coarse and worse fine metrics.",
        "fig:hierarchical-baselines",
        "scatter",
        verdicts_runs.opposite_trends,
    ),
    Claim(
        "All other hierarchical objectives are like Flat: lower coarse and higher fine metrics.",
        "fig:hierarchical-baselines",
        "scatter",
        verdicts_runs.baselines_like_flat,
    ),
    Claim("Rank is worse than Flat in every metric.", "tab:rank", "rank", verdicts_runs.rank_worse),
)

_STUDIES: tuple[Claim, ...] = (
    Claim(
        "FastFT > EMD > l2 at every batch size.", "fig:cpcc_ablation", "batch-size", verdicts_studies.ordered
    ),
    Claim(
        "Larger batches give OT-CPCC a larger advantage over l2.",
        "sec:interpretability",
        "batch-size",
        verdicts_studies.batches_matter,
    ),
    Claim("FastFT > EMD > l2 at every weight.", "fig:cpcc_ablation", "weight", verdicts_studies.ordered),
    Claim(
        "FastFT > EMD > l2 with every backbone.",
        "fig:cpcc_ablation",
        "backbone",
        verdicts_studies.ordered,
        gpu="ResNet18 to 50 and the vision transformers",
    ),
    Claim(
        "Deeper trees are learned as well, at equal accuracy.",
        "tab:tree-depth-tab",
        "tree-depth",
        verdicts_studies.depth_steady,
    ),
    Claim(
        "Distance matrices show the blocks of the tree at every depth.",
        "fig:tree-depth-distM",
        "tree-depth",
        verdicts_studies.blocks_seen,
    ),
    Claim(
        "A subtree of weight 4 lowers CPCC.",
        "tab:tree-weight-tab",
        "tree-weights",
        verdicts_studies.weights_drop,
    ),
    Claim(
        "Weights of a subtree leave accuracies comparable.",
        "tab:tree-weight-tab",
        "tree-weights",
        verdicts_studies.accuracy_steady,
    ),
    Claim(
        "The block of the subtree darkens as its weight grows.",
        "fig:tree-weight-distM",
        "tree-weights",
        verdicts_studies.block_darkens,
    ),
    Claim(
        "With distance flow weights the tree is hardly recovered.",
        "tab:comparison_colored_normalized",
        "flow-weights",
        verdicts_studies.distance_collapses,
    ),
    Claim(
        "Flow weights can improve target metrics at the expense of source metrics, with every objective.",
        "tab:comparison_colored_normalized",
        "flow-weights",
        verdicts_studies.flow_trade,
    ),
    Claim(
        "(Beyond the paper) The knowledge in the tree helps, not the regularizer alone.",
        "-",
        "shuffled",
        verdicts_runs.tree_helps,
    ),
    Claim(
        "(Beyond the paper) Principal order brings FastFT closer to EMD.",
        "-",
        "orders",
        verdicts_features.principal_closer,
    ),
    Claim(
        "(Beyond the paper) A memory of earlier batches raises TestCPCC at every batch size.",
        "-",
        "memory",
        verdicts_studies.memory_helps,
    ),
)

MEASURED: tuple[Claim, ...] = (*_SYNTHETIC, *_MAIN, *_STUDIES)
