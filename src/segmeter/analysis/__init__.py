"""Analysis: what benchmarks compute and show alike: groups, costs, responses, tables, cases."""
