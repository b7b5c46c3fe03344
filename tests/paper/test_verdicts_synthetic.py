"""Verdicts on the synthetic study with made-up numbers."""

from cophenet.paper import verdicts_synthetic


def test_the_synthetic_study_by_its_numbers():
    times = {
        "l2": {"exponent": 0.9, "sizes": [8, 16], "mean": [1, 4], "best": [1, 3.5]},
        "FastFT": {"exponent": 1.1, "sizes": [8, 16], "mean": [1, 3], "best": [1, 2.5]},
        "TWD": {"exponent": 2.4, "sizes": [8], "mean": [4]},
    }
    errors = {name: {"mean": [e], "std": [0.01]} for name, e in (("l2", -0.08), ("EMD", 0), ("SWD", -0.9))}
    far = {**errors, "l2": {"mean": [-0.95], "std": [0.01]}, "FT": {"mean": [0.2], "std": [0.01]}}
    study = {"times": times, "errors": {"gaussian": errors, "mixture": far}, "settings": {"repeats": 10}}
    document = {"study": study}
    assert not verdicts_synthetic.within_bounds(document).holds
    assert verdicts_synthetic.fastest(document).measured == "TWD takes 4 times as long at n = 8"
    # By the powers, whatever the seconds are.
    found = verdicts_synthetic.l2_scales_better(document)
    assert (found.holds, found.close) == (True, False)
    assert found.measured.endswith("best times at n = 16: l2 3.500 s, FastFT 2.500 s")
    times["FastFT"]["exponent"] = 0.95
    assert verdicts_synthetic.l2_scales_better(document).close
    found = verdicts_synthetic.gaussian_agreement(document)
    assert (found.holds, found.close) == (True, False)
    assert verdicts_synthetic.swd_like_l2(document).holds
    assert verdicts_synthetic.mixture_differs(document).measured.startswith(
        "all are at least 24 times l2 (FT"
    )
    assert verdicts_synthetic.faster_than_sinkhorn(document) is None


def gaussian(**errors):
    entries = {name: {"mean": [mean], "std": [0.0002]} for name, mean in errors.items()}
    return {"study": {"errors": {"gaussian": entries}, "settings": {"repeats": 10}}}


def test_agreement_on_gaussians_is_with_l2():
    # All within a tenth of EMD, but on both sides of it.
    found = verdicts_synthetic.gaussian_agreement(gaussian(l2=-0.072, FastFT=0.025, SWD=-0.94))
    assert (found.holds, found.close) == (False, False)
    shown = "at most 10.5 ± 0.0 % (FastFT), EMD 7.8 ± 0.0 %, SWD 93.5 ± 0.0 %"
    assert found.measured.startswith(f"against l2, which decides: {shown}; 10.0 % counts as close")
    assert "against EMD: at most 7.2 ± 0.0 % (l2)" in found.measured
    assert verdicts_synthetic.gaussian_agreement(gaussian(l2=-0.072, FastFT=0.01, SWD=-0.94)).holds
    assert not verdicts_synthetic.gaussian_agreement(gaussian(l2=-0.072, FastFT=0.01, SWD=-0.1)).holds
