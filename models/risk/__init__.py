"""Re-identification risk (paper: reidentification-risk-2020)."""
