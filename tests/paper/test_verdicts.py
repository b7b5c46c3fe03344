"""The judge: one rule for noise, three verdicts, and the reasons why something cannot be told."""

import math
import statistics
from dataclasses import replace

import pytest
from scipy.stats import t

from cophenet.paper.documents import Document
from cophenet.paper.expressions import AllOf, AnyOf, Claim, average_of, best_of, value
from cophenet.paper.items import find_items
from cophenet.paper.observations import Observations, with_breeds
from cophenet.paper.page import evidence
from cophenet.paper.plan import Settings, plan_runs
from cophenet.paper.run_observations import read_runs
from cophenet.paper.variants import BREEDS
from cophenet.paper.verdicts import judge, judge_claim

from .written import observed

SURE = value("emd", "m") > value("l2", "m")


def verdict(requirement, *entries, recipe="digits", **options):
    return judge(requirement, observed(*entries), recipe, **options)


def pair(emd, l2, metric="m", **options):
    return ("digits", "emd", metric, emd, dict(options)), ("digits", "l2", metric, l2, dict(options))


def test_the_interval_is_that_of_paired_differences():
    emd, l2 = (0.50, 0.62, 0.71), (0.40, 0.50, 0.62)
    differences = [a - b for a, b in zip(emd, l2, strict=True)]
    half = t.ppf(0.975, 2) * statistics.stdev(differences) / math.sqrt(3)
    low, high = (100 * (statistics.fmean(differences) + sign * half) for sign in (-1, 1))
    # The seeds differ far more than the objectives: only pairs tell.
    found = verdict(SURE, *pair(emd, l2))
    assert found.verdict == "holds"
    assert found.texts == (f"m, EMD: 61.0 against l2: 50.7; +10.3 [{low:+.1f}, {high:+.1f}]",)


@pytest.mark.parametrize(
    ("emd", "l2", "expected", "reasons"),
    [
        ((0.5, 0.51, 0.52), (0.4, 0.41, 0.42), "holds", ()),
        ((0.4, 0.41, 0.42), (0.5, 0.51, 0.52), "does not hold", ()),
        ((0.5, 0.41, 0.52), (0.4, 0.5, 0.42), "cannot be told", ("within noise",)),
        ((0.9, 0.91), (0.1, 0.11), "cannot be told", ("2 seeds, 3 are needed",)),
        ((0.9,), (0.1,), "cannot be told", ("1 seed, 3 are needed",)),
        ((0.9, 0.9, 0.9), (0.1,), "cannot be told", ("1 seed, 3 are needed",)),
        ((0.9, None, 0.9), (0.1, 0.1, 0.1), "cannot be told", ("m of EMD is undefined",)),
        ((), (0.1, 0.1, 0.1), "cannot be told", ("EMD not run",)),
    ],
)
def test_three_verdicts_with_reasons(emd, l2, expected, reasons):
    found = verdict(SURE, *pair(emd, l2))
    assert (found.verdict, found.reasons) == (expected, reasons)


def test_a_margin_and_a_floor_are_part_of_the_comparison():
    numbers = pair((0.5, 0.51, 0.52), (0.4, 0.41, 0.42))
    assert verdict(value("emd", "m") > value("l2", "m") + 0.05, *numbers).verdict == "holds"
    assert verdict(value("emd", "m") > value("l2", "m") + 0.2, *numbers).verdict == "does not hold"
    assert verdict(value("emd", "m") < 1.1 * value("l2", "m"), *numbers).verdict == "does not hold"
    assert verdict(value("emd", "m") < 1.5 * value("l2", "m"), *numbers).verdict == "holds"
    assert verdict(replace(SURE, floor=0.2), *numbers).reasons == ("within noise",)


def test_limits_are_compared_too():
    found = verdict(value("emd", "power") > 2.0, *pair((2.7, 2.8, 2.75), (1.0,) * 3, "power"))
    assert found.verdict == "holds"
    assert found.texts[0].startswith("power, EMD: 2.75 against 2; +0.75 [")
    assert verdict(value("emd", "power") < 2.0, *pair((2.7, 2.8, 2.75), (1.0,) * 3, "power")).verdict == (
        "does not hold"
    )


def test_counts_have_no_noise():
    table = observed(("digits", "", "samples/train/of-printed", (1.01,)))
    row = table.rows[0]
    exact = Observations(table.conditions, (type(row)(row.condition, None, row.metric, row.value),))
    share = value("", "samples/train/of-printed")
    found = judge(AllOf([share > 0.98, share < 1.02]), exact, "digits")
    assert (found.verdict, found.reasons) == ("holds", ())
    assert judge(share > 1.02, exact, "digits").verdict == "does not hold"


def test_a_number_with_a_doubt_decides_nothing():
    entries = ("digits", "l2", "components/diagonal", (9.9, 9.8, 9.9), {"doubt": "samples are too few"})
    found = verdict(value("l2", "components/diagonal") > 1.0, entries)
    assert (found.verdict, found.reasons) == ("cannot be told", ("samples are too few",))


@pytest.mark.parametrize(("accuracy", "told"), [(0.2, False), (0.7, True)])
def test_a_network_below_half_of_the_papers_accuracy_decides_nothing(accuracy, told):
    def of(name, numbers):
        return (
            ("cifar100", name, "cpcc/l2", numbers),
            ("cifar100", name, "source/accuracy/fine", (accuracy,) * 3),
        )

    entries = (*of("emd", (0.5, 0.51, 0.52)), *of("l2", (0.1, 0.11, 0.12)))
    comparison = value("emd", "cpcc/l2") > value("l2", "cpcc/l2")
    found = verdict(comparison, *entries, recipe="cifar100")
    assert found.verdict == ("holds" if told else "cannot be told")
    if not told:
        assert found.reasons[0].startswith("fine accuracy of EMD is 20.0 %, below half of the paper's 8")
    # Times need no trained network.
    assert verdict(comparison, *entries, recipe="cifar100", untrained=True).verdict == "holds"


def test_several_objectives_are_taken_together_seed_by_seed():
    entries = [
        ("digits", "fastft", "m", (0.73, 0.74, 0.75)),
        ("digits", "emd", "m", (0.66, 0.67, 0.68)),
        ("digits", "l2", "m", (0.70, 0.71, 0.72)),
    ]
    # One is far above l2, the mean is not: chance favours the best.
    assert verdict(best_of(("fastft", "emd"), "m") > value("l2", "m"), *entries).verdict == "holds"
    found = verdict(average_of(("fastft", "emd"), "m") > value("l2", "m") + 0.01, *entries)
    assert (found.verdict, found.texts[0].partition(" against")[0]) == (
        "does not hold",
        "m, mean of FastFT, EMD: 70.5",
    )
    # What is not trained on a data set is left out, as EMD on BREEDS.
    assert verdict(average_of(("fastft", "swd"), "m") > value("l2", "m"), *entries).verdict == "holds"
    assert verdict(value("swd", "m") > value("l2", "m"), *entries) is None


def test_all_and_any_of_several():
    good, bad = value("emd", "m") > value("l2", "m"), value("l2", "m") > value("emd", "m")
    noise = value("emd", "noisy") > value("l2", "noisy")
    numbers = (*pair((0.5, 0.51, 0.52), (0.4, 0.41, 0.42)), *pair((0.5, 0.4, 0.3), (0.3, 0.4, 0.5), "noisy"))
    for requirement, expected in (
        (AllOf([good, good]), "holds"),
        (AllOf([good, noise]), "cannot be told"),
        (AllOf([good, noise, bad]), "does not hold"),
        (AnyOf([bad, good]), "holds"),
        (AnyOf([bad, noise]), "cannot be told"),
        (AnyOf([bad, AllOf([good, bad])]), "does not hold"),
    ):
        assert verdict(requirement, *numbers).verdict == expected
    found = verdict(AllOf([good, noise, bad]), *numbers)
    assert found.counts == {"does not hold": 1, "cannot be told": 1, "holds": 1}
    assert found.texts[0].startswith("m, l2: 41.0 against EMD: 51.0; -10.0")


def test_settings_and_controls_are_other_conditions():
    entries = [
        ("digits", "emd", "m", (0.7, 0.71, 0.72)),
        ("digits", "emd", "m", (0.4, 0.41, 0.42), {"control": True}),
        ("digits", "emd", "m", (0.9, 0.91, 0.92), {"setting": {"memory": 4096, "batch_size": 64}}),
    ]
    assert verdict(value("emd", "m") > value("emd", "m", control=True), *entries).verdict == "holds"
    more = value("emd", "m", {"batch_size": 64, "memory": 4096})
    found = verdict(more > value("emd", "m"), *entries)
    assert found.verdict == "holds"
    assert "EMD, batch size 64, memory 4096: 91.0 against EMD: 71.0" in found.texts[0]


def test_the_four_settings_of_breeds_are_one_data_set():
    rows = [(name, "emd", "m", (0.1 * place, 0.2, 0.3)) for place, name in enumerate(BREEDS)]
    table = with_breeds(observed(*rows, ("living17", "l2", "m", (0.1,))))
    pooled = table.find("breeds", "emd")
    assert table.values(pooled, "m") == {0: pytest.approx(0.15), 1: 0.2, 2: pytest.approx(0.3)}
    assert table.find("breeds", "l2") is None


def test_the_mean_of_breeds_has_the_doubts_and_differences_of_its_settings():
    """Three seeds that would hold, one setting of which was measured on a busy machine."""
    rows = [
        (data, name, "m", (number, number, number + 0.001), {"doubt": doubt, "differs": differs})
        for name, number in (("emd", 0.9), ("l2", 0.1))
        for data, doubt, differs in (
            (BREEDS[0], "", ""),
            (BREEDS[1], "busy", "other tree"),
            (BREEDS[2], "few samples", "other data"),
            (BREEDS[3], "busy", "other tree"),
        )
    ]
    table = with_breeds(observed(*rows))
    assert {row.doubt for row in table.rows if row.condition.recipe == "breeds"} == {"busy; few samples"}
    assert table.find("breeds", "emd").differs == "other tree; other data"
    found = judge(SURE, table, "breeds")
    assert (found.verdict, found.reasons) == ("cannot be told", ("busy; few samples",))


def regimes(*entries):
    """Frozen and fine-tuned networks; three seeds each."""
    rows = []
    for pretrained, name, level in entries:
        values = tuple(level + seed / 1000 for seed in range(3))
        options = {"scale": "laptop", "pretrained": pretrained}
        rows.append(("cifar100", name, "source/map/coarse", values, options))
    return observed(*rows)


def test_a_claim_is_judged_at_each_scale_alone():
    metric = "source/map/coarse"
    claim = Claim("OT is above l2.", "here", "coarse", value("fastft", metric) > value("l2", metric))
    table = regimes(
        ("frozen", "fastft", 0.79),
        ("frozen", "l2", 0.80),
        ("fine-tuned", "fastft", 0.72),
        ("fine-tuned", "l2", 0.7),
    )
    found = {one.regime: one.judgement.verdict for one in judge_claim(claim, table)}
    assert found == {
        "laptop scale, frozen backbone": "does not hold",
        "laptop scale, fine-tuned backbone": "holds",
    }
    # What the item lacks is taken from another one, and both verdicts stand on the page.
    own = Document("coarse", observations=table.at(["laptop scale, frozen backbone"]))
    other = Document("umap", observations=table)
    together = evidence(claim, [own, other])
    assert {one.regime: one.judgement.verdict for one in judge_claim(claim, together)} == found
    assert len(together.rows) == 12


def test_a_backbone_from_imagenet_decides_nothing_about_breeds():
    rows = [(name, o, "m", (v, v, v)) for name in BREEDS for o, v in (("emd", 0.9), ("l2", 0.1))]
    for pretrained, expected in (("", "holds"), ("frozen", "cannot be told")):
        options = {"scale": "laptop", "pretrained": pretrained}
        table = observed(*((*row, options) for row in rows))
        found = judge(SURE, table, "living17")
        assert found.verdict == expected
        pooled = judge(SURE, with_breeds(table), "breeds")
        assert pooled.verdict == expected
    assert found.reasons == (
        "the backbone has learned the classes of BREEDS, source and target, from ImageNet",
    )


def test_few_steps_and_busy_machines_decide_nothing():
    numbers = pair((0.5, 0.51, 0.52), (0.4, 0.41, 0.42))
    steps = [("digits", name, "steps", (54.0,) * 3) for name in ("emd", "l2")]
    found = verdict(SURE, *numbers, *steps)
    assert found.reasons[0] == "EMD was trained for 54 steps, 100 are needed"
    assert verdict(SURE, *numbers, *steps, untrained=True).verdict == "holds"
    times = value("emd", "seconds_per_epoch") > value("l2", "seconds_per_epoch")
    busy = pair((20.0, 24.0, 30.0), (10.0, 10.1, 10.2), "seconds_per_epoch")
    assert verdict(times, *busy, untrained=True).reasons == (
        "times of EMD vary by 20 %: the machine was busy",
    )
    quiet = pair((20.0, 20.1, 20.2), (10.0, 10.1, 10.2), "seconds_per_epoch")
    assert verdict(times, *quiet, untrained=True).verdict == "holds"


def test_runs_say_what_became_of_their_backbone(tmp_path):
    found = {}
    for name in ("rank", "fine-tuning"):
        (item,) = find_items((name,))
        table = read_runs(plan_runs(item, Settings("laptop", ("cifar100",), (0,))), tmp_path)
        assert table.find("cifar100", "flat").setting == {}
        found[name] = {condition.regime for condition in table.conditions}
    assert found["rank"] == {"laptop scale, frozen backbone"}
    assert found["fine-tuning"] == {"laptop scale, fine-tuned backbone"}
    (item,) = find_items(("rank",))
    for settings, regime in ((Settings("laptop", ("digits",)), "laptop"), (Settings("scratch"), "scratch")):
        conditions = read_runs(plan_runs(item, settings), tmp_path).conditions
        assert {condition.regime for condition in conditions} == {f"{regime} scale"}
