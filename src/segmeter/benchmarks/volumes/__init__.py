"""Volumes: which model gives the best segmentation of a volume for the least effort."""
