"""Claims about the cost of distances and how well they approximate EMD; to add one, add an entry here."""

from __future__ import annotations

from cophenet.paper.expressions import AllOf, Claim, chain, each_above, near, value
from cophenet.paper.variants import MODE_BY_MODE

__all__ = ["COST_CLAIMS"]

TIMED = ("cifar10", "inat21-mini")
# Powers of n in the paper's table of complexities, without logarithms, and the allowed excess. That 0.75 to
# 1.25 counts as linear was decided after the first pilots of the timing study had been seen.
BOUNDS = {"l2": 1, "fastft": 1, "swd": 1, "ft": 1, "twd": 2, "sinkhorn": 2, "emd": 3}
SLACK = 0.25
# Powers of n that differ by less than this may be the same.
SAME_POWER = 0.1
CLOSE, PROHIBITIVE, LITTLE_SLOWER = 0.1, 100, 1.1
APPROXIMATIONS = ("swd", "ft", "twd", "sinkhorn", "emd")
SORTED = f"abs-error/{MODE_BY_MODE}"
NOT_SWD = ("emd", "fastft", "fastft-principal", "ft", "twd", "sinkhorn", "bures")

COST_CLAIMS: tuple[Claim, ...] = (
    Claim(
        "FastFT takes time linear in n.",
        "prop:fft_alg",
        "synthetic",
        near(value("fastft", "power"), 1.0, SLACK),
    ),
    Claim(
        "EMD takes more than quadratic time in n (the paper: cubic).",
        "introduction, tab:ot_comparison",
        "synthetic",
        value("emd", "power") > 2.0,
    ),
    Claim(
        "No distance grows faster with n than the table of complexities says.",
        "tab:ot_comparison",
        "synthetic",
        AllOf(value(name, "power") < bound + SLACK for name, bound in BOUNDS.items()),
    ),
    Claim(
        "FastFT is faster than Sinkhorn.",
        "fig:synthetic",
        "synthetic",
        value("sinkhorn", "times-fastft") > 1.0,
    ),
    Claim(
        "FastFT is the fastest OT distance.",
        "abstract, sec:fft",
        "synthetic",
        AllOf(value(name, "times-fastft") > 1.0 for name in APPROXIMATIONS),
    ),
    Claim(
        "In practice l2 scales better than FastFT: a lower power of n, and less time at the largest n.",
        "app:time-complexity",
        "synthetic",
        AllOf(
            [
                (value("fastft", "power") > value("l2", "power")).with_floor(SAME_POWER),
                value("l2", "times-fastft") < 1.0,
            ]
        ),
    ),
    Claim(
        "FastFT takes no more than linear time in d.",
        "prop:fft_alg",
        "synthetic",
        value("fastft", "power-d") < 1 + SLACK,
    ),
    Claim(
        "No distance grows faster with d than linearly, as the table of complexities says.",
        "tab:ot_comparison",
        "synthetic",
        AllOf(value(name, "power-d") < 1 + SLACK for name in BOUNDS),
    ),
    Claim(
        "No distance grows faster with the number of classes k than its square.",
        "tab:ot_comparison",
        "synthetic",
        AllOf(value(name, "power-k") < 2 + SLACK for name in BOUNDS),
    ),
    Claim(
        "The bottleneck of FlowTree is building its tree.",
        "sec:fft",
        "synthetic",
        value("ft", "build-share") > 0.5,
    ),
    Claim(
        "FastFT approximates EMD better than Sinkhorn on mixtures.",
        "fig:synthetic",
        "synthetic",
        value("fastft", "abs-error/mixture") < value("sinkhorn", "abs-error/mixture"),
        also_shown={"samples mode by mode": value("fastft", SORTED) < value("sinkhorn", SORTED)},
    ),
    Claim(
        "On Gaussians all distances but SWD are close to l2.",
        "fig:synthetic",
        "synthetic",
        AllOf(
            [
                *(value(name, "from-l2/gaussian") < CLOSE for name in NOT_SWD),
                value("swd", "from-l2/gaussian") > CLOSE,
            ]
        ),
        also_shown={
            "close to EMD": AllOf(value(name, "abs-error/gaussian") < CLOSE for name in ("l2", *NOT_SWD))
        },
    ),
    Claim(
        "On mixtures the OT distances differ notably from l2.",
        "fig:synthetic",
        "synthetic",
        AllOf(value(name, "over-l2/mixture") > 2.0 for name in NOT_SWD),
    ),
    Claim(
        "On mixtures SWD is close to l2, not to EMD.",
        "fig:synthetic",
        "synthetic",
        value("swd", "abs-error/mixture") > value("swd", "gap-l2/mixture"),
    ),
    Claim(
        "Bures is prohibitively expensive.",
        "tab:bures-others",
        "batch-time",
        value("bures", "times-l2") > PROHIBITIVE,
        also_shown={"by square roots of matrices": value("bures-dense", "times-l2") > PROHIBITIVE},
    ),
    Claim(
        "A batch takes longer with Bures than with EMD, and with EMD than with l2.",
        "tab:bures-others",
        "batch-time",
        chain(("bures-dense", "emd", "l2"), "seconds_per_batch"),
    ),
    Claim(
        "An epoch with FastFT is faster than with EMD.",
        "tab:ot-wallclock",
        "epoch-time",
        value("fastft", "seconds_per_epoch") < value("emd", "seconds_per_epoch"),
        TIMED,
        untrained=True,
    ),
    Claim(
        "An epoch with FastFT is faster than with Sinkhorn and SWD.",
        "tab:ot-wallclock",
        "epoch-time",
        each_above(("sinkhorn", "swd"), "fastft", ["seconds_per_epoch"]),
        TIMED,
        untrained=True,
    ),
    Claim(
        "An epoch with FastFT is not much slower than with l2.",
        "tab:ot-wallclock",
        "epoch-time",
        value("fastft", "seconds_per_epoch") < LITTLE_SLOWER * value("l2", "seconds_per_epoch"),
        TIMED,
        untrained=True,
        also_shown={"slower at all": value("fastft", "seconds_per_epoch") > value("l2", "seconds_per_epoch")},
    ),
    Claim(
        "On iNaturalist an epoch with FastFT is even faster than with l2.",
        "tab:ot-wallclock",
        "epoch-time",
        value("l2", "seconds_per_epoch", recipe="inat21-mini")
        > value("fastft", "seconds_per_epoch", recipe="inat21-mini"),
        across=True,
        untrained=True,
        gpu="all",
    ),
)
