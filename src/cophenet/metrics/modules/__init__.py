"""torchmetrics shells of the metrics: each keeps sums or samples, and calls the functions for the rest."""
