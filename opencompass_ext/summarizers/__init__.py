"""Summarizers: from the results files of a run to one table."""

from opencompass_ext.summarizers.default import DefaultSummarizer

__all__ = ["DefaultSummarizer"]
