"""Phases, learning rates and loss terms."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cophenet._common.checks import DivergenceError
from cophenet.objectives import Phase, phase_lengths
from cophenet.recipes import load_recipe
from cophenet.recipes.settings import OptimizerSettings, ScheduleSettings
from cophenet.runs.lightning_module import derive_seed
from cophenet.runs.loss_meter import Meter
from cophenet.runs.optimizers import learning_rate
from cophenet.runs.stages import plan_stages, stage_at


def test_phases_follow_each_other():
    stages = plan_stages([Phase("a", (), 30), Phase("b", (), 40), Phase("c", (), 10)], 8)
    assert [(s.index, s.start, s.end) for s in stages] == [(0, 0, 3), (1, 3, 7), (2, 7, 8)]
    assert [stage_at(stages, epoch).phase.name for epoch in range(9)] == list("aaabbbbcc")


@given(st.lists(st.integers(1, 300), min_size=1, max_size=5), st.integers(0, 60))
@settings(max_examples=200, deadline=None)
def test_phases_share_the_epochs_in_proportion(shares, more):
    epochs = len(shares) + more
    lengths = phase_lengths([Phase("a", (), share) for share in shares], epochs)
    assert sum(lengths) == epochs
    assert min(lengths) >= 1
    whole = [epochs * share / sum(shares) for share in shares]
    if min(whole) >= 1:
        assert max(abs(one - other) for one, other in zip(lengths, whole, strict=True)) <= 1


def test_a_phase_is_not_left_without_an_epoch():
    with pytest.raises(ValueError, match=r"epochs must be at least 2, one for each phase \(a, b\), got 1"):
        phase_lengths([Phase("a", ()), Phase("b", ())], 1)
    with pytest.raises(ValueError, match=r"epochs must be at least 2, one for each phase \(shape, digit\)"):
        load_recipe("digits", overrides=["objective.name=curriculum", "one_shot.epochs=7", "epochs=1"])


def test_the_learning_rate_falls_in_steps():
    optimizer = OptimizerSettings(lr=3.0)
    schedule = ScheduleSettings(divide_by=2, every=3)
    rates = [learning_rate(optimizer, schedule, epoch, 8) for epoch in range(8)]
    assert rates == [3, 3, 3, 1.5, 1.5, 1.5, 0.75, 0.75]
    assert learning_rate(optimizer, None, 6, 8) == 3


def test_means_are_over_samples_and_survive_a_checkpoint():
    whole, first, second = Meter(), Meter(), Meter()
    steps = [(8, 1.0, 4.0), (8, 2.0, 5.0), (3, 7.0, -1.0)]
    for number, (size, a, b) in enumerate(steps):
        terms = {"a": torch.tensor(a), "b": torch.tensor(b, dtype=torch.float64)}
        whole.add(number, terms, size)
        if number == 1:
            second.restore(first.state(), torch.device("cpu"))
        (first if number < 1 else second).add(number, terms, size)
    expected = {"a": (8 + 16 + 21) / 19, "b": (32 + 40 - 3) / 19}
    assert whole.means() == pytest.approx(expected)
    assert second.means() == whole.means()
    whole.reset()
    assert whole.means() == {}


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_is_reported_with_step_and_term(bad):
    meter = Meter()
    meter.add(4, {"good": torch.tensor(1.0), "bad": torch.tensor(bad)}, 8)
    with pytest.raises(DivergenceError, match=f"'bad' became {bad} in step 4"):
        meter.add(5, {"good": torch.tensor(1.0), "bad": torch.tensor(1.0)}, 8)


def test_terms_must_not_change_within_an_epoch():
    meter = Meter()
    meter.add(0, {"a": torch.tensor(1.0)}, 8)
    with pytest.raises(ValueError, match="same terms in every step of a phase, a; got b"):
        meter.add(1, {"b": torch.tensor(1.0)}, 8)


def test_seeds_depend_on_every_key():
    seeds = {derive_seed(*keys) for keys in [(0,), (1,), (0, 0, 0), (0, 1, 0), (1, 0, 0), (0, 0, 1)]}
    assert len(seeds) == 6
