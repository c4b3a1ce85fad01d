"""How far scores agree with people's preferences and ranks, side by side on the same answers.

Each is compared with the length of the answer as well: "longer wins", or "shorter wins" where that
is right more often, since a score that only just beats the wrong direction has shown nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opencompass_ext.evaluators.answers.comparisons import (
    Comparison,
    Comparisons,
    by_majority,
    by_vote,
)
from opencompass_ext.evaluators.answers.predictors import (
    LENGTH,
    Predictor,
    length_direction,
    turned,
)
from opencompass_ext.evaluators.answers.rows import AnswerRow
from opencompass_ext.evaluators.answers.side_by_side import row_missing, side_by_side, with_value
from opencompass_ext.metrics.pairwise import accuracy_difference, agreement, credits
from opencompass_ext.metrics.rank_agreement import (
    pooled_tau,
    rank_agreement,
    rank_agreement_difference,
)

OVERALL = None


def preference_agreement(
    rows: Sequence[AnswerRow], predictors: Sequence[Predictor], *, seed: int, resamples: int
) -> dict[str, Any] | None:
    """Return the agreement with preferences, per vote and by majority, overall and per category.

    Args:
        rows: The answers.
        predictors: The scores, the primary one first; one of them is the length of the answer.
        seed: Seed of all intervals.
        resamples: Resamples of each interval.

    Returns:
        ``{"votes": {...}, "majority": {...}}``, each with ``unanswered`` (votes about an answer
        that is not there), ``length_direction`` (what every score is compared with) and ``groups``
        (see ``side_by_side``), all answers first; ``majority`` is None when each pair has one vote.
        None when there are no votes.
    """
    votes, majorities = by_vote(rows), by_majority(rows)
    if votes == Comparisons((), (), 0):
        return None

    def described(found: Comparisons) -> dict[str, Any]:
        groups = []
        baseline = _length_baseline(found.decided, predictors)
        for category in _groups(rows):
            chosen = [c for c in found.decided if category in (OVERALL, rows[c.first].category)]
            ties = sum(category in (OVERALL, rows[row].category) for row in found.tied)
            group = _of_group(chosen, rows, predictors, baseline, seed, resamples)
            groups.append({"category": category, "ties": ties, **group})
        return {
            "unanswered": found.unanswered,
            "length_direction": length_direction(baseline),
            "groups": groups,
        }

    return {
        "votes": described(votes),
        "majority": None if majorities == votes else described(majorities),
    }


def ranks_agreement(
    rows: Sequence[AnswerRow], predictors: Sequence[Predictor], *, seed: int, resamples: int
) -> dict[str, Any] | None:
    """Return the agreement with ranks, overall and per category.

    Args:
        rows: The answers.
        predictors: As in ``preference_agreement``.
        seed: Seed of all intervals.
        resamples: Resamples of each interval.

    Returns:
        ``length_direction`` and ``groups``, as in ``preference_agreement``; None when no answer has
        a rank.
    """
    ranked = [number for number, row in enumerate(rows) if row.rank is not None]
    if not ranked:
        return None
    groups = []
    baseline = _length_baseline_of_ranks(ranked, rows, predictors)
    for category in _groups(rows):
        chosen = [n for n in ranked if category in (OVERALL, rows[n].category)]
        if not chosen and category is not OVERALL:
            continue

        def described(kept: Sequence[int], shown: Sequence[Predictor]) -> dict[str, Any]:
            return {
                "n": len(kept),
                "questions": len({rows[n].question for n in kept}),
                "predictors": _ranks_of_group(kept, rows, shown, baseline, seed, resamples),
            }

        found = side_by_side(chosen, predictors, row_missing, described)
        groups.append({"category": category, **found})
    return {"length_direction": length_direction(baseline), "groups": groups}


def _ranks_of_group(
    kept: Sequence[int],
    rows: Sequence[AnswerRow],
    predictors: Sequence[Predictor],
    baseline: Predictor,
    seed: int,
    resamples: int,
) -> list[dict[str, Any]]:
    gold = [rows[n].rank or 0.0 for n in kept]
    questions = [rows[n].question for n in kept]
    # Rank 1 is the best, so a score is turned to have its best values low.
    of_length = [-baseline.goodness(n) for n in kept]
    options = {"seed": seed, "resamples": resamples}
    found = []
    for predictor in predictors:
        own = [-predictor.goodness(n) for n in kept]
        of_predictor = rank_agreement(own, gold, questions, **options)
        record = {
            **_named(predictor),
            "tau_b": of_predictor.pooled.value,
            "tau_b_p": of_predictor.pooled.p,
            "tau_b_ci95": of_predictor.pooled_ci95,
            "mean_tau": of_predictor.mean,
            "mean_tau_ci95": of_predictor.mean_ci95,
            "questions_in_mean": of_predictor.questions_in_mean,
        }
        if predictor.name != LENGTH:
            record["versus_length"] = rank_agreement_difference(
                own, of_length, gold, questions, **options
            )._asdict()
        found.append(record)
    return found


def _groups(rows: Sequence[AnswerRow]) -> list[str | None]:
    """Return all rows together, then each category if there are several."""
    categories = dict.fromkeys(row.category for row in rows if row.category is not None)
    return [OVERALL, *(categories if len(categories) > 1 else ())]


def _of_group(
    comparisons: Sequence[Comparison],
    rows: Sequence[AnswerRow],
    predictors: Sequence[Predictor],
    baseline: Predictor,
    seed: int,
    resamples: int,
) -> dict[str, Any]:
    def described(kept: Sequence[Comparison], shown: Sequence[Predictor]) -> dict[str, Any]:
        preferred = [c.is_first_preferred for c in kept]
        questions = [rows[c.first].question for c in kept]
        by_length = credits(_margins(baseline, kept), preferred)
        found = []
        for predictor in shown:
            margins = _margins(predictor, kept)
            of_predictor = agreement(margins, preferred, questions, seed=seed, resamples=resamples)
            record = {**_named(predictor), **of_predictor._asdict()}
            if predictor.name != LENGTH:
                record["versus_length"] = accuracy_difference(
                    credits(margins, preferred),
                    by_length,
                    questions,
                    seed=seed,
                    resamples=resamples,
                )._asdict()
            found.append(record)
        return {"n": len(kept), "questions": len(set(questions)), "predictors": found}

    return side_by_side(comparisons, predictors, _comparison_missing, described)


def _length_baseline(
    comparisons: Sequence[Comparison], predictors: Sequence[Predictor]
) -> Predictor:
    """Return the length of the answer, turned to the direction that agrees more with people."""
    length = next(p for p in predictors if p.name == LENGTH)
    kept = with_value(comparisons, predictors[0], _comparison_missing)
    right = credits(_margins(length, kept), [c.is_first_preferred for c in kept])
    return length if 2 * sum(right) >= len(right) else turned(length)


def _length_baseline_of_ranks(
    ranked: Sequence[int], rows: Sequence[AnswerRow], predictors: Sequence[Predictor]
) -> Predictor:
    length = next(p for p in predictors if p.name == LENGTH)
    kept = with_value(ranked, predictors[0], row_missing)
    tau = pooled_tau(
        [-length.goodness(n) for n in kept],
        [rows[n].rank or 0.0 for n in kept],
        [rows[n].question for n in kept],
    )
    return turned(length) if tau is not None and tau < 0 else length


def _comparison_missing(comparison: Comparison, predictor: Predictor) -> str | None:
    return predictor.why_missing(comparison.first, comparison.second)


def _margins(predictor: Predictor, comparisons: Sequence[Comparison]) -> list[float]:
    return [predictor.goodness(c.first) - predictor.goodness(c.second) for c in comparisons]


def _named(predictor: Predictor) -> dict[str, Any]:
    return {"name": predictor.name, "higher_is_better": predictor.higher_is_better}
