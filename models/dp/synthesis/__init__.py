"""The stages of `models.dp.synthetic`, one file each; every one says what it costs and to what one case is bounded."""
