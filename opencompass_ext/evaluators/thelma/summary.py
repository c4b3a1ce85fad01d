"""From the judged rows to what the results file says of the whole set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opencompass_ext.datasets.rag_rows import response_key
from opencompass_ext.evaluators.means import mean_entries
from opencompass_ext.evaluators.thelma.evidence import evidence
from opencompass_ext.evaluators.thelma.judged import JudgedRow, ScoringOptions
from opencompass_ext.evaluators.thelma.rows import RagRow
from opencompass_ext.judging.prompts.fence import injection_signs
from opencompass_ext.metrics.score import Score
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
        refusals: 1 for each row whose response is a refusal, 0 for the others.
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
    refusals: list[Score] = field(default_factory=list)
    unsupported: list[dict[str, Any]] = field(default_factory=list)

    def add(self, judged: JudgedRow) -> None:
        """Take in one row."""
        scores = judged.scores(self.options)
        for name, score in scores.items():
            self.scores.setdefault(name, []).append(score)
        failures = judged.failures
        self.failed_rows += bool(failures)
        self.failures.update(failures)
        row = judged.row
        self.refusals.append(_refusal(judged))
        self.counts.update(
            verdicts=len(judged.verdicts),
            unsure_verdicts=judged.unsure,
            unreadable_verdicts=sum(v.is_yes is None for v in judged.verdicts.values()),
            rows_without_sources=int(not row.sources),
            blank_sources=row.blank_sources,
            rows_without_response=int(not row.response),
        )
        signs = _signs(row)
        self.counts.update(rows_with_text_for_the_judge=int(bool(signs)))
        found = {
            **({"text_for_the_judge": signs} if signs else {}),
            **evidence(judged, self.options.metrics),
        }
        if "groundedness" in self.options.metrics:
            self._note_unsupported(row.id, found.get("claims", ()))
        detail = self._detail(judged, scores)
        if self.write is None:
            detail.update(found)
        else:
            self.write({**detail, "query": row.query, "response": row.response, **found})
        self.details.append(detail)

    def _note_unsupported(self, row: str, claims: Sequence[Mapping[str, Any]]) -> None:
        # A claim without a readable verdict is neither supported nor unsupported.
        found = [claim for claim in claims if claim["supported"]["verdict"] in ("no", "unsure")]
        self.counts.update(unsupported_claims=len(found))
        for claim in found[: _MOST_CLAIMS - len(self.unsupported)]:
            shown = {name: claim["supported"].get(name) for name in ("verdict", "why", "reason")}
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
        scores: dict[str, list[Score]] = {name: [] for name in self.options.metrics}
        scores.update(self.scores)
        if not {"response_precision", "groundedness"}.isdisjoint(scores):
            # Whether a response refuses is told when it is cut into claims.
            scores["refusal_rate"] = self.refusals
        means = mean_entries(scores, seed=seed, min_coverage=min_coverage)
        return {
            **means,
            "counts": {
                "rows": len(self.details),
                "rows_with_judge_failures": self.failed_rows,
                "judge_failures": dict(self.failures),
                **self.counts,
            },
            "diagnosis": self._diagnosis({name: means[name] for name in self.options.metrics}),
            "unsupported_claims": self.unsupported,
            "details": self.details,
        }

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


def _refusal(judged: JudgedRow) -> Score:
    if not judged.row.response:
        return Score(None, "no_response")
    if judged.is_refusal is None:
        return Score(None, "not_cut_into_claims")
    return Score(float(judged.is_refusal))
