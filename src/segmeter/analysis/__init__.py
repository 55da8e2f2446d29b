"""Analysis shared by benchmarks: groups, costs, responses, tables, cases."""
