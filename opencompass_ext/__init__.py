"""Likelihood- and judge-based evaluation of language models, in OpenCompass's vocabulary."""

from opencompass_ext.version import __version__

__all__ = ["__version__"]
