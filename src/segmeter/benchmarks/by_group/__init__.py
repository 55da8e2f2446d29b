"""Runs split by group: size, shape, class, or what a groups file says (`--by`)."""
