"""Checkable instructions about a text: "use fewer than 200 words", "no commas", "end with this phrase".

Each kind of instruction is one pure function of a text and its parameters. It is registered under its ids in public
datasets (IFEval, its training variant in open-instruct, and IFBench), so that their rows can be verified. The meaning
of an id follows those benchmarks, and `Kind.wording` states the check. A rule about every line, sentence or quotation
is violated when there are too few of them for the rule to apply: an empty answer must not satisfy it.

    registry     `Kind`, the decorator `instruction` and the table of kinds
    catalog      all kinds
    evaluation   parse the instructions of a row; strict and loose verdicts on a text
    parameters   types of the instructions' parameters
    text_units   words, sentences, paragraphs and lines of a text
    lexicon      lists of English words

The other modules define the kinds. This file imports nothing, because workers import it.
"""
