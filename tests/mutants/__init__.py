"""Mutation testing (`make mutants`, not in CI): each small fault planted in a module must fail one of its tests.

Operators are Cosmic Ray's, and two of our own (a bound taken away, a statement deleted). Cosmic Ray's runner starts a
process for each mutant, which takes seconds with numba and pandas; ours forks one that has imported everything and
has run the tests once, and knows which test runs which function. mutmut forks too, but mutates no decorated function
(the kernels, the cached threshold), no constant, and needs a release of click that faust-streaming excludes.
"""
