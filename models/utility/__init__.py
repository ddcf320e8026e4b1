"""Utility of a release: distances, graphs, discovery."""
