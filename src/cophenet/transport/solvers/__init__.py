"""Solvers for the transport problems of many class pairs.

`problem` holds the arrays that all exact solvers share; `library` solves with SciPy and POT; `dispatch` calls
the Numba kernels of `kernels` for small pairs. Numba, SciPy and POT are imported when a solver first runs.
`entropic` is Sinkhorn's iteration. Other kernels: `flowtree_kernel` of "ft", and `host_loops` for small steps
that are called often. `machine_code` manages their compilation.
"""
