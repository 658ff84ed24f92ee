"""Findings about task folders, under the rule ids of the format's own linter.

    findings    the rules, and a finding as data
    linting     all findings of a folder
    layout      the files of a folder, and the settings that do not fit together
    commands    the lines of a Dockerfile and of shell scripts

The rules about Compose files are not checked: this gym refuses tasks that need Compose.
"""
