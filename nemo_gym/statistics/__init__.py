"""Statistics of evaluations: intervals that may be looked at any time, plans, and comparisons of many.

Pure functions of numbers, without I/O. Every formula names its source. Builds on `metrics`.

- `allocation`: which task to attempt next, with a known probability
- `betting`: wealths of bets against every possible mean
- `sequential`: the interval of a mean that is valid at every look, from draws in their order
- `distributions`: the beta and Student's t distribution
- `planning`: the smallest difference that a run can show, and the repeats that a difference needs
- `multiplicity`: adjusted p-values and ranks of many comparisons
- `task_information`: difficulty and discrimination of tasks, and a smaller set that ranks the same
"""
