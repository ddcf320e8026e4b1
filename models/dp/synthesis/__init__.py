"""The stages of `models.dp.synthetic`, one file each; each states its cost, and the bound on one case."""
