"""Likelihood of labelled spans of texts under a causal language model.

``spans`` and ``encoding`` go from characters to tokens, ``pieces`` and ``prefix`` decide what has
to be read, ``batching`` and ``engine`` read it, ``requests`` says what for, ``forward`` is one
pass, ``probe`` asks a model what it allows, and ``scorer`` puts them in a row.
"""
