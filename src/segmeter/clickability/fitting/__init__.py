"""Fitting the click prior to first and correction clicks, and how well it holds held out."""
