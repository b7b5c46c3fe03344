"""Settings of the whole suite."""

import torch

# Tensors in tests are small: more threads only wait for each other on a busy machine.
torch.set_num_threads(1)
