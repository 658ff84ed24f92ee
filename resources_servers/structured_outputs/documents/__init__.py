"""Documents that a model writes in JSON, YAML, XML, TOML or CSV, as plain JSON values, and their fit to a schema.

    documents    a text to a JSON value; the document within an answer
    leaf_types   the text of XML and CSV as the numbers and truth values that a schema names
    writing      a JSON value to a document
    limits       what a document may not do

This file imports nothing, because workers import it.
"""
