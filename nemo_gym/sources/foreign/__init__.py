"""Environments of other projects by name, such as `textarena:Mastermind-v0`.

kinds         the ecosystems, and the form of a name
venvs         an interpreter with the packages of a kind, built from its lock
host/         the program that such an interpreter runs (standard library, never imports the gym)
process       one running host: the protocol, its limits, and the failures
pool          hosts that attempts take in turns
rows          the task rows of an environment
environment   the resources server
blocks        the configuration of an environment that a command line names
"""
