"""Statistics: intervals, paired tests, ranking, effort."""
