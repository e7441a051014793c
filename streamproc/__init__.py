"""Continual release of differentially private synthetic data from longitudinal data."""
