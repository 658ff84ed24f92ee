"""`make bench-viewer`: the viewer on large runs in a real Chromium, with the answers checked against Python.

    fixtures     writes the runs: a million rows, 10 GB, 131,072 tokens, 500 calls, a live and a killed run, known flips
    pages        a server and a page of it, with times and memory
    tables, rollouts   the measurements, by the number of their group in docs/performance.md
    __main__     runs them and prints the figures

`scale=100` makes the runs a hundredth of their size. The runs are deleted at the end.
"""
