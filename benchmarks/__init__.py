"""Benchmarks. Each prints JSON, and computes in as many threads as the commands do."""

from stream.commands import limit_blas_threads

limit_blas_threads()
