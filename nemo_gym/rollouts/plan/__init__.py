"""The plan of a run: task rows are read, checked and turned into planned rollouts.

Datasets are streamed and never held in memory. All malformed rows are reported together before a run starts.

- `dataset`: JSONL files, plain or compressed, read line by line
- `compression`: the codecs of `.gz` and `.zst` files
- `task_rows`: one line of a dataset → a task, or its faults
- `inspection`: the first pass over the datasets
- `plan`: every (task, repeat) in order
- `identity`: (task, repeat), and the set of finished rollouts
"""
