"""Solvers for the transport problems of many class pairs.

`problem` holds the arrays that all exact solvers share; `library` solves with SciPy and POT; `compiled`
drives the Numba kernels of `kernels`. Numba, SciPy and POT are imported when a solver first runs. `entropic`
is Sinkhorn's iteration. Other kernels: `matching` of "ft", and `host_loops` for small steps that are called
often. `machine_code` manages their compilation.
"""
