"""The field, side by side: differentially private release of variants by other programs and by ours, on public logs."""
