"""The five papers, recomputed: one module per paper, each of which makes a page of tables with the printed values."""
