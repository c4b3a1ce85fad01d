"""Reports: all models' results on one data set, told as a few tables and sentences.

A results file names its report under ``report``; the functions below make it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from opencompass_ext.summarizers.reports.answers import answers_report
from opencompass_ext.summarizers.reports.report import Report
from opencompass_ext.summarizers.reports.sanity import sanity_report
from opencompass_ext.summarizers.reports.source_support import source_support_report
from opencompass_ext.summarizers.reports.thelma import thelma_report
from opencompass_ext.summarizers.reports.thelma_pairs import thelma_pairs_report

MakeReport = Callable[[str, Mapping[str, Mapping[str, Any]]], Report]

REPORTS: dict[str, MakeReport] = {
    "pplqa": answers_report,
    "gptscore": answers_report,
    "geval": answers_report,
    "source_support": source_support_report,
    "thelma": thelma_report,
    "thelma_pairs": thelma_pairs_report,
    "pplqa_sanity": sanity_report,
}
"""Name of a report -> the function from data set and results by model (those of one data set)."""
