"""Checkable instructions about a text: "use fewer than 200 words", "no commas", "end with this phrase".

Each kind of instruction is one pure function of a text and its parameters, registered under the ids by which
public datasets call it (the families of IFEval, of its training variant in open-instruct, and of IFBench), so that
rows written for those are graded here. What an id means follows those benchmarks' instructions; the wording that
`Kind` carries says what is checked. A rule about every line, sentence or quotation is broken where there is none or
only one to which it could apply: silence must not be a way to follow it.

    registry     `Kind`, the decorator `instruction` and the table of kinds
    catalog      all kinds
    evaluation   rows to instructions, and the strict and the loose verdict on a text
    text_units   words, sentences, paragraphs, lines: what the kinds count

The modules between define the kinds. This file imports nothing, because workers import it.
"""
