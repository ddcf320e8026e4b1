"""The five papers, recomputed: one module per paper, each a page of tables beside the printed values."""
