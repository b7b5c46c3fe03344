"""The loss, Pearson's correlation, the cross-batch memory, and the exchange between processes.

The attribute `cophenet.cpcc` is the function `cpcc`, not this package: use `from cophenet.cpcc import ...`.
"""

from cophenet.cpcc.loss import CPCCLoss
from cophenet.cpcc.pearson import cpcc

__all__ = ["CPCCLoss", "cpcc"]
