"""Transport of many class pairs: what a problem is, and the solvers that fill in its plan.

`problem` holds the arrays that all exact solvers share; `library` solves with SciPy and POT; `compiled`
drives the Numba kernels of `kernels`. Numba, SciPy and POT are imported when a solver first runs. `entropic`
is Sinkhorn's iteration. Other kernels: `matching` of "ft", and `host_loops` for small steps that are made
often. `machine_code` says what is compiled.
"""
