"""Building blocks that verifiers of two or more environments share. docs/verification.md explains when to use each.

    answers, code_blocks          find the final answer, or the code, in a response
    matching, numbers, json_equality, json_schema, patterns
                                  compare texts, quantities and JSON values
    notation, typesetting, units  one spelling of formulas; units of measurement
    code_execution                run a Python solution against its tests
    state, function_calls         compare the resulting state, or the calls made, with the expected ones
    judge, equivalence_judge      ask a judge model
    judge_calls                   call a judge's server and convert its errors
    rewards                       combine reward components
    task_rows                     the error of an invalid task row
    off_loop                      run a synchronous function in a worker process

Extraction and comparison are pure functions: the same text always gets the same verdict. The room builds on
`transport`, `sandbox`, `processes`, `config` and `responses`. This file imports nothing, because workers import it.
"""
