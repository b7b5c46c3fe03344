"""Settings of the whole suite."""

import os

# Tensors in tests are small: more threads only wait for each other. Set before libraries start theirs.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import torch  # noqa: E402

torch.set_num_threads(1)
