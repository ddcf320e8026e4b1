"""Correspondence attacks over pairs and series of releases (paper: correspondence-attacks-2021)."""
