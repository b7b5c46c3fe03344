"""Settings of the whole suite."""

import gc
import os
import signal

# Tensors in tests are small: more threads only wait for each other. Set before libraries start theirs.
# And POT shall not load JAX where that is installed: it has threads, and warns of every fork.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POT_BACKEND_DISABLE_JAX"):
    os.environ.setdefault(_name, "1")

import pytest  # noqa: E402

# Shells start what runs in the background with Ctrl-C ignored, but tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection():
    """Modules stay until the end: the garbage collector looks through them neither now nor later."""
    gc.disable()
    collected = yield
    gc.freeze()
    gc.set_threshold(20_000)  # of what tests make there is little, so once in a while will do
    gc.enable()
    return collected


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Also after a library that changes their number, as numba does: threads that wait are not idle."""
    import torch  # not where nothing but reports of other processes is read

    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_suite(tmp_path_factory):
    """Vectors of frozen backbones are kept apart from those of the user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COPHENET_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
