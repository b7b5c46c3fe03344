"""What may be asked for, what the list says, and what it costs."""

import pytest

from cophenet.cli.reproduce import _hours
from cophenet.paper.items import ITEMS, find_items
from cophenet.paper.plan import Settings, check_settings, laptop_minutes, wanted
from cophenet.paper.variants import PAPER_DATA, plain
from cophenet.recipes import load_recipe


@pytest.mark.parametrize(
    ("item", "setting", "key"),
    [
        ("batch-size", "batch_size=256", "batch_size"),
        ("rank", "objective.name=emd", "objective.name"),
        ("coarse", "objective={name: emd}", "objective.name"),
        ("shuffled", "tree.shuffle_seed=3", "tree.shuffle_seed"),
        ("shuffled", "tree={shuffle_seed: 3}", "tree.shuffle_seed"),
        ("flow-weights", "objective.cpcc.flow_weights=inverse", "objective.cpcc.flow_weights"),
        ("memory", "objective.cpcc={memory: 4096}", "objective.cpcc.memory"),
        ("tree-depth", "data.options.depth=4", "data.options.depth"),
    ],
)
def test_what_an_item_varies_cannot_be_set(run, item, setting, key):
    code, _, error = run(item, "--set", setting, "--only-finished")
    assert code == 2
    assert error == f"error: --set {setting}: {item} varies {key} itself, leave out one of the two\n"
    assert run("data", item, "--set", setting, "--list")[0] == 2


def test_seeds_are_no_setting(run):
    code, _, error = run("rank", "--set", "seeds=[3]")
    assert (code, error) == (2, "error: --set seeds=[3]: give --seeds instead\n")


def test_other_settings_of_a_study_may_be_set():
    settings = Settings("scratch", overrides=("epochs=6", "schedule.every=2"))
    check_settings([item for item in ITEMS if item.name != "equal-steps"], settings)
    check_settings(find_items(("weight",)), Settings("laptop", overrides=("batch_size=256",)))
    # Three epochs are all that times need, but nothing is named after them.
    check_settings(find_items(("epoch-time",)), Settings("laptop", overrides=("epochs=5",)))


def test_own_data_is_for_another_command(run):
    code, _, error = run("shuffled", "--recipe", "vectors", "--only-finished")
    assert code == 2
    assert (
        "trains on all classes, and items show source and target; for your own data use `cophenet study`"
        in error
    )


def test_an_item_of_other_data_is_left_out(run, tmp_path):
    code, out, _ = run("tree-depth", "rank", "--recipe", "digits", "--only-finished", "-o", "o")
    assert code == 0
    assert "tree-depth: only on cifar100\n" in out
    assert "; 1 item written" in out
    assert sorted(path.name for path in (tmp_path / "o").iterdir()) == ["README.md", "claims.md", "rank"]
    code, _, error = run("tree-depth", "--recipe", "digits")
    assert (code, error) == (2, "error: tree-depth: only on cifar100: leave out --recipe\n")


def test_an_item_that_does_not_fit_a_recipe_fails_alone(run, tmp_path):
    code, out, error = run("backbone", "rank", "--recipe", "digits", "--only-finished", "-o", "o")
    assert code == 1
    assert error.startswith(
        "error: backbone: l2, efficientnet-lite1 on digits: backbone 'efficientnet-lite1' has no"
    )
    assert "save_features_every" not in error
    assert "rank: wrote" in out
    assert not (tmp_path / "o/backbone").exists()


def test_wrong_settings_are_told_as_they_were_given(run):
    code, _, error = run("backbone", "rank", "--recipe", "digits", "--set", "epochs=none")
    assert code == 2
    assert error.startswith("error: --set epochs=none: ")
    assert "objective.name" not in error


def test_the_list_is_of_what_would_be_made(run):
    def row(*arguments):
        scale = () if "digits" in arguments else ("--scale", "scratch")
        code, out, _ = run("rank", "--list", *scale, *arguments)
        assert code == 0
        return out.splitlines()[1].split()[:6]

    assert row() == ["rank", "9", "180", "35", "min", "cifar100"]
    assert row("--seeds", "1") == ["rank", "3", "60", "12", "min", "cifar100"]
    assert row("--seeds", "1", "--set", "epochs=2") == ["rank", "3", "6", "2", "min", "cifar100"]
    assert row("--recipe", "digits", "--seeds", "1")[:2] == ["rank", "3"]
    assert row("--recipe", "digits", "--seeds", "1")[3:5] == ["-", "digits"]
    assert run("rank", "--list", "--recipe", "nothing")[0] == 2
    assert "tree-depth: only on cifar100" in run("--list", "--recipe", "digits")[1]


def test_folders_are_checked(run, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, error = run("rank", "--data-dir", "nowhere")
    assert (code, error) == (2, "error: --data-dir nowhere: there is no such folder\n")
    for option in ("-o", "--runs", "--data-dir"):
        code, _, error = run("rank", option, "file", "--only-finished")
        assert (code, error) == (2, f"error: {option} file: file is a file, a folder is needed\n")
    assert run("rank", "-o", "file/inside", "--only-finished")[0] == 2


@pytest.mark.parametrize("recipe", PAPER_DATA)
def test_every_recipe_of_the_paper_has_a_cost_that_grows_with_epochs_and_runs(recipe):
    (variant,) = plain(["flat"])
    for scale in ("scratch", "laptop"):
        one, three = (laptop_minutes([(recipe, variant, tuple(range(n)))], (), scale) for n in (1, 3))
        assert three == pytest.approx(3 * one)
        assert one > (0.1 if scale == "scratch" else 0.004) * load_recipe(recipe, scale).epochs


def test_every_item_has_a_cost():
    for item in ITEMS:
        entries = wanted(item, Settings("laptop"))
        assert (laptop_minutes(entries) > 0) == bool(entries)


def test_minutes_become_hours():
    assert (_hours(119), _hours(120)) == ("119 min", "2 h")
