"""Compiled kernels, each with a plain twin."""
