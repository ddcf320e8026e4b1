"""Prometheus metrics: their definitions, their endpoint, and the observer that fills them."""
