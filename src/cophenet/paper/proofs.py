"""Claims of the paper that need no measurement, as data: each is proved or refuted by tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["PROOFS", "Proof"]


class Proof(NamedTuple):
    """A claim that is proved or refuted.

    Attributes:
        text: What is claimed, in our words.
        where: Its place in the paper.
        tests: Names of the tests that show it, by their file.
        reason: Why.
        verdict: Whether the claim is right as it is printed: "holds" or "does not hold".
    """

    text: str
    where: str
    tests: Mapping[str, tuple[str, ...]]
    reason: str
    verdict: str


PROOFS: tuple[Proof, ...] = (
    Proof(
        "CPCC as printed is Pearson's correlation.",
        "eq:cpcc",
        {"tests/paper/test_proofs.py": ("test_the_printed_cpcc_has_exponents_of_the_wrong_sign",)},
        "The exponents of the denominator have the wrong sign; with 1/2 instead of -1/2 it is.",
        "does not hold",
    ),
    Proof(
        "l2 between class means is the maximum mean discrepancy with a linear kernel.",
        "introduction",
        {"tests/paper/test_proofs.py": ("test_l2_is_the_mean_discrepancy_of_a_linear_kernel",)},
        "Exactly.",
        "holds",
    ),
    Proof(
        "Means can misrepresent classes that have several modes.",
        "fig:EMD_motivation",
        {"tests/paper/test_proofs.py": ("test_means_do_not_see_modes",)},
        "Two classes of different modes and one mean have l2 = 0 and EMD above 0.",
        "holds",
    ),
    Proof(
        "Some tree metrics, as of a star with three edges, cannot be embedded exactly in Euclidean space.",
        "sec:forward_generalize",
        {"tests/paper/test_proofs.py": ("test_a_star_with_its_centre_has_no_euclidean_embedding",)},
        "With the centre as a point; the leaves alone are an equilateral triangle.",
        "holds",
    ),
    Proof(
        "With centroids the optimal CPCC of 1 can never be reached.",
        "sec:forward_generalize",
        {
            "tests/paper/test_proofs.py": (
                "test_centroids_reach_the_tree_where_leaves_have_equal_depth",
                "test_centroids_reach_a_cpcc_of_one_on_a_tree_that_does_not_embed",
            )
        },
        (
            "Distances between leaves of equal depth are ultrametric and embed exactly. Other trees need "
            "not embed, but CPCC is blind to a constant added to all distances: with a large one the k "
            "leaves of any tree embed in k - 1 dimensions."
        ),
        "does not hold",
    ),
    Proof(
        "EMD of two Gaussians of one covariance is the distance of their means.",
        "prop:emd_gaussian",
        {"tests/transport/test_emd.py": ("test_a_translate_is_as_far_as_the_shift",)},
        "A cloud and its translate by a vector are its length apart; samples of Gaussians only nearly.",
        "holds",
    ),
    Proof(
        "EMD is at least the distance of the means.",
        "prop:emd_gaussian, proof",
        {"tests/transport/test_emd.py": ("test_between_the_means_and_any_plan_and_symmetric",)},
        "With flow weights: of the weighted means.",
        "holds",
    ),
    Proof(
        "EMD is at most the 2-Wasserstein distance, of Gaussians Bures, which is l2 for equal covariances.",
        "prop:emd_gaussian, proof",
        {
            "tests/paper/test_proofs.py": ("test_emd_and_bures_are_at_most_the_2_wasserstein_distance",),
            "tests/transport/test_bures.py": (
                "test_translates_and_singletons",
                "test_equals_the_dense_formula",
            ),
        },
        "Of samples, Bures is a lower bound of the 2-Wasserstein distance, and not one of EMD.",
        "holds",
    ),
    Proof(
        "All OT-CPCC distances are bounded below by l2.",
        "sec:forward_generalize",
        {
            "tests/paper/test_proofs.py": (
                "test_sliced_distances_can_be_below_l2",
                "test_with_flow_weights_emd_can_be_below_the_plain_means",
            ),
            "tests/transport/test_family.py": ("test_plans_lie_between_weighted_l2_and_each_other",),
        },
        (
            "Those with a plan are. SWD has none and is usually below l2; with flow weights the bound is "
            "the distance of the weighted means."
        ),
        "does not hold",
    ),
    Proof(
        "In one dimension greedy matching after sorting is optimal, for any sizes and weights.",
        "preliminaries; prop:fft_alg, proof",
        {
            "tests/paper/test_proofs.py": ("test_sorted_greedy_matching_is_optimal_on_a_line",),
            "tests/transport/test_emd.py": ("test_one_dimension_is_sorted_matching",),
        },
        "It equals EMD.",
        "holds",
    ),
    Proof(
        "On the augmented tree greedy matching (Algorithm 1) and bottom-up matching (Algorithm 2) agree.",
        "prop:fft_alg",
        {
            "tests/transport/test_bottom_up_flow.py": (
                "test_theorem_algorithms_1_and_2_agree_on_the_augmented_tree",
            )
        },
        "When both take the samples in the same order.",
        "holds",
    ),
    Proof(
        "Bottom-up matching (Algorithm 2) is optimal for the metric of its tree.",
        "prop:fft_alg, proof",
        {"tests/transport/test_bottom_up_flow.py": ("test_optimal_for_the_metric_of_any_tree",)},
        "On any tree.",
        "holds",
    ),
    Proof(
        "The order of samples does not matter, as their tree distances are all the same.",
        "prop:fft_alg, proof sketch",
        {"tests/paper/test_proofs.py": ("test_order_matters_in_the_features_and_not_in_the_tree",)},
        (
            "Not for the cost in the tree, where any plan is optimal; FastFT's value is the cost in the "
            "features, which changes with the order."
        ),
        "does not hold",
    ),
    Proof(
        "Greedy matching stays optimal for the tree unless samples have edges of different weights.",
        "prop:fft_alg, proof",
        {"tests/paper/test_proofs.py": ("test_sample_edges_of_any_weight_leave_every_plan_optimal",)},
        "It stays so with them too: the marginals fix what every sample's own edge carries.",
        "does not hold",
    ),
    Proof(
        "FastFT applies to any label tree and any edge weights.",
        "sec:fft",
        {"tests/paper/test_proofs.py": ("test_fastft_does_not_see_the_tree",)},
        "Its value does not depend on the tree at all.",
        "holds",
    ),
    Proof(
        "FastFT's plan has at most m + n entries, and with uniform weights depends on the sizes alone.",
        "prop:fft_alg, proof; alg:FFTCPCC",
        {"tests/transport/test_plan.py": ("test_uniform_plan_is_the_exact_cut_of_the_unit_interval",)},
        "It has m + n - gcd(m, n).",
        "holds",
    ),
    Proof(
        "Every OT distance of two classes needs time (m + n) d at least, so FastFT is optimal.",
        "sec:fft",
        {"tests/paper/test_proofs.py": ("test_fastft_depends_on_every_entry_of_every_sample",)},
        "Every entry is read. Of one pair: over k classes l2 grows with k n d, FastFT with k^2 n d.",
        "holds",
    ),
    Proof(
        "EMD's gradient is exact with the plan held constant; the plan has at most m + n - 1 entries.",
        "lemma:danskin",
        {"tests/transport/test_emd.py": ("test_gradcheck", "test_plan_is_sparse_and_has_the_marginals")},
        "Where the best plan is unique.",
        "holds",
    ),
    Proof(
        "l2 pulls all samples of a class alike, EMD each by its own flows.",
        "sec:differentiable",
        {"tests/paper/test_proofs.py": ("test_gradients_are_those_of_the_paper",)},
        "Both formulas are right.",
        "holds",
    ),
    Proof(
        "The gradient of Sinkhorn is exact, those of TWD, SWD, FT and FastFT are not.",
        "tab:ot_comparison",
        {
            "tests/transport/test_family.py": ("test_gradient_is_that_of_the_value",),
            "tests/transport/test_sinkhorn.py": ("test_through_is_the_gradient_of_the_value",),
        },
        (
            "Sinkhorn's is exact when it goes through the iterations. So are the others: FastFT's plan "
            "does not depend on the features, those of SWD and FT are constant almost everywhere, and "
            "TWD's fit can be differentiated."
        ),
        "does not hold",
    ),
    Proof(
        "TWD has a closed form in the weights of the tree and the masses below its nodes.",
        "sec:approximation",
        {"tests/transport/test_twd.py": ("test_closed_form_is_emd_in_the_tree_metric",)},
        "It is EMD in the tree metric.",
        "holds",
    ),
    Proof(
        "How well SWD approximates EMD depends strongly on the number of projections.",
        "sec:approximation",
        {"tests/paper/test_proofs.py": ("test_more_projections_make_swd_steadier_but_not_nearer_to_emd",)},
        (
            "They make its value steadier; it stays far below EMD with any number, as a projection from d "
            "dimensions keeps about 1 / sqrt(d) of a length."
        ),
        "does not hold",
    ),
    Proof(
        "TWD of predictions and true labels is an l1 loss, bounded above by SumLoss.",
        "related work",
        {"tests/paper/test_proofs.py": ("test_tree_wasserstein_of_predictions_is_at_most_twice_sumloss",)},
        "With edges of weight 1/2; with edges of weight 1 by twice SumLoss.",
        "holds",
    ),
    Proof(
        "CPCC is stricter than ranks: it depends on the sizes of distances and on the weights of the tree.",
        "sec:interpretability",
        {"tests/paper/test_proofs.py": ("test_cpcc_sees_what_ranks_do_not",)},
        "By example.",
        "holds",
    ),
)
