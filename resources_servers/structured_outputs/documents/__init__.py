"""Parsing and writing of JSON, YAML, XML, TOML and CSV documents as plain JSON values.

    documents                       parse a text; find the document in an answer
    xml_documents, yaml_documents   the parsers of these formats
    leaf_types                      convert the text of XML and CSV to the types of a schema
    writing                         write a JSON value as a document
    limits                          limits of size and depth, and the error of an invalid document

This file imports nothing, because workers import it.
"""
