"""From the judged rows to what the results file says of the whole set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opencompass_ext.datasets.rag_rows import response_key
from opencompass_ext.evaluators.thelma.evidence import evidence
from opencompass_ext.evaluators.thelma.judged import JudgedRow, ScoringOptions
from opencompass_ext.evaluators.thelma.rows import RagRow
from opencompass_ext.judging.prompts.fence import injection_signs
from opencompass_ext.metrics.bootstrap import mean_interval
from opencompass_ext.metrics.thelma import Score, set_score
from opencompass_ext.metrics.thelma_diagnosis import RULES, diagnose, rule_holds

# Claims without support that the results show; the evidence has all.
_MOST_CLAIMS = 20


@dataclass(slots=True)
class Tally:
    """What has been seen of the rows so far; their texts are not kept where ``write`` takes them.

    Attributes:
        options: How verdicts become numbers.
        low, high: Cut-offs of the diagnosis.
        write: Takes the evidence of each row; None leaves it in the details.
        details: One entry per row, for the results file.
        scores: Metric -> score of each row.
        failed_rows: Rows that the judge left without some usable answer.
        failures: Why, counted over all questions.
        counts: Other things counted.
        refusals: For each row with a known answer to it, whether its response was a refusal.
        unsupported: The first claims that the sources do not support.
    """

    options: ScoringOptions
    low: float
    high: float
    write: Callable[[dict[str, Any]], None] | None = None
    details: list[dict[str, Any]] = field(default_factory=list)
    scores: dict[str, list[Score]] = field(default_factory=dict)
    failed_rows: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    refusals: list[bool] = field(default_factory=list)
    unsupported: list[dict[str, Any]] = field(default_factory=list)

    def add(self, judged: JudgedRow) -> None:
        """Take in one row."""
        scores = judged.scores(self.options)
        for name, score in scores.items():
            self.scores.setdefault(name, []).append(score)
        failures = judged.failures
        self.failed_rows += bool(failures)
        self.failures.update(failures)
        if judged.is_refusal is not None:
            self.refusals.append(judged.is_refusal)
        row = judged.row
        self.counts.update(
            verdicts=len(judged.verdicts),
            unsure_verdicts=judged.unsure,
            unreadable_verdicts=sum(v.is_yes is None for v in judged.verdicts.values()),
            rows_without_sources=not row.sources,
            blank_sources=row.blank_sources,
            rows_without_response=not row.response,
        )
        signs = _signs(row)
        self.counts["rows_with_text_for_the_judge"] += bool(signs)
        found = {**({"text_for_the_judge": signs} if signs else {}), **evidence(judged)}
        self._note_unsupported(row.id, found.get("claims", ()))
        detail = self._detail(judged, scores)
        if self.write is None:
            detail.update(found)
        else:
            self.write({**detail, "query": row.query, "response": row.response, **found})
        self.details.append(detail)

    def _note_unsupported(self, row: str, claims: Sequence[Mapping[str, Any]]) -> None:
        for claim in claims:
            verdict = claim.get("supported")
            if verdict is None or verdict["verdict"] == "yes":
                continue
            self.counts["unsupported_claims"] += 1
            if len(self.unsupported) < _MOST_CLAIMS:
                shown = {name: verdict.get(name) for name in ("verdict", "why", "reason")}
                self.unsupported.append({"id": row, "text": claim["text"], **shown})

    def _detail(self, judged: JudgedRow, scores: Mapping[str, Score]) -> dict[str, Any]:
        values = {name: score.value for name, score in scores.items()}
        reasons = {name: s.reason for name, s in scores.items() if s.value is None}
        return {
            "id": judged.row.id,
            "response_key": response_key(judged.row.response),
            **values,
            "reasons": reasons,
            "diagnosis": diagnose(values, low=self.low, high=self.high),
            "refusal": judged.is_refusal,
            "unsure_verdicts": judged.unsure,
        }

    def results(self, *, seed: int, min_coverage: float) -> dict[str, Any]:
        """Return metrics, intervals, coverage, diagnosis and details, as the results file has them.

        Args:
            seed: Of the bootstrap.
            min_coverage: Share of the rows that a metric must be scored on for its mean to be
                shown.
        """
        metrics: dict[str, float | None] = {}
        intervals: dict[str, list[float] | None] = {}
        coverage: dict[str, Any] = {}
        reasons: dict[str, str] = {}
        for name in self.options.metrics:
            found = set_score(self.scores.get(name, []))
            coverage[name] = {
                "n_scored": found.n_scored,
                "n_total": found.n_total,
                "null_rows": found.reasons,
            }
            metrics[name] = found.mean
            if found.mean is None:
                reasons[name] = _main_reason(found.reasons)
            elif found.n_scored < min_coverage * found.n_total:
                metrics[name] = None
                reasons[name] = "coverage_below_minimum"
            interval = mean_interval(_values(self.scores.get(name, [])), seed=seed)
            shown = interval if metrics[name] is not None else None
            intervals[f"{name}_ci95"] = None if shown is None else list(shown)
            if shown is None:
                reasons[f"{name}_ci95"] = reasons.get(name, "fewer_than_two_scored_rows")
        return {
            **metrics,
            **self._refusal_rate(reasons),
            **intervals,
            "reasons": reasons,
            "coverage": coverage,
            "counts": {
                "rows": len(self.details),
                "rows_with_judge_failures": self.failed_rows,
                "judge_failures": dict(self.failures),
                **self.counts,
            },
            "diagnosis": self._diagnosis(metrics),
            "unsupported_claims": self.unsupported,
            "details": self.details,
        }

    def _refusal_rate(self, reasons: dict[str, str]) -> dict[str, float | None]:
        if {"response_precision", "groundedness"}.isdisjoint(self.options.metrics):
            return {}  # Whether a response refuses is told when it is cut into claims.
        if not self.refusals:
            reasons["refusal_rate"] = "no_response_cut_into_claims"
            return {"refusal_rate": None}
        return {"refusal_rate": sum(self.refusals) / len(self.refusals)}

    def _diagnosis(self, metrics: Mapping[str, float | None]) -> dict[str, Any]:
        """Return which patterns hold for the means, and how many rows show each."""
        rows = [{n: self.scores[n][i].value for n in self.scores} for i in range(len(self.details))]
        rules = []
        for rule in RULES:
            held = [rule_holds(rule, row, low=self.low, high=self.high) for row in rows]
            rules.append(
                {
                    "name": rule.name,
                    "holds": rule_holds(rule, metrics, low=self.low, high=self.high),
                    "rows": sum(h is True for h in held),
                    "rows_decided": sum(h is not None for h in held),
                    "meaning": rule.meaning,
                    "fix": rule.fix,
                }
            )
        return {"low_below": self.low, "high_from": self.high, "rules": rules}


def _signs(row: RagRow) -> dict[str, list[str]]:
    """Return what in response and sources looks as if it were meant for the judge."""
    texts = {"response": row.response, **{f"source {s.id}": s.text for s in row.sources}}
    found = {name: list(injection_signs(text)) for name, text in texts.items()}
    return {name: signs for name, signs in found.items() if signs}


def _values(scores: Sequence[Score]) -> list[float]:
    return [score.value for score in scores if score.value is not None]


def _main_reason(reasons: Mapping[str, int]) -> str:
    return max(reasons, key=lambda name: reasons[name]) if reasons else "no_rows"
