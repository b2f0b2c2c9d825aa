"""Frozen settings of every command: each option, its default and its help, once.

A field is an option of the command line (underscores as dashes) and, where it shapes the model, an attribute of the
model file, letter for letter; a trailing underscore, which Python's keywords ask for, is dropped.
"""
