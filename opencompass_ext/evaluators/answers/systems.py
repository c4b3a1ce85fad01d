"""The systems that gave the answers, ranked by each score and by people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opencompass_ext.evaluators.answers.comparisons import by_vote
from opencompass_ext.evaluators.answers.predictors import Predictor
from opencompass_ext.evaluators.answers.rows import AnswerRow
from opencompass_ext.metrics.ranks import kendall_tau_b
from opencompass_ext.metrics.systems import Ranking, SystemScore, rank_systems


def systems_table(
    rows: Sequence[AnswerRow],
    primary: Predictor,
    rivals: Sequence[Predictor],
    *,
    seed: int,
    resamples: int,
) -> dict[str, Any]:
    """Return what the scores say of each system, the best by the primary score first.

    Args:
        rows: The answers.
        primary: The score that ranks the systems.
        rivals: Scores whose mean and rank are given beside it.
        seed: Seed of all intervals.
        resamples: Resamples of each interval.

    Returns:
        ``ranked_by``, ``questions`` and ``common_questions`` (see ``metrics.systems.Ranking``),
        ``not_ranked`` (why not: ``"no_scores"``, ``"one_system"``, ``"one_scored_system"``,
        ``"no_shared_question"``, or None), ``null_rows`` (answers without a score, by reason),
        ``missing`` (system -> questions that it did not answer), ``unscored`` (systems without any
        score), ``systems`` (one record each), and where people voted ``agreement_with_people``:
        tau-b of the order of the systems by people's win rate and that by rank or win rate.
    """
    ranking = _rank(rows, primary, seed, resamples)
    of_rivals = {rival.name: _rank(rows, rival, seed, resamples) for rival in rivals}
    by_people = _win_rates_of_people(rows)
    records = []
    for system in ranking.systems:
        record: dict[str, Any] = {**system._asdict()}
        for name, of_rival in of_rivals.items():
            found = next((s for s in of_rival.systems if s.system == system.system), None)
            record[name] = None if found is None else _of_rival(found)
        if by_people:
            rate, votes = by_people.get(system.system, (None, 0))
            record |= {"human_win_rate": rate, "human_votes": votes}
        records.append(record)
    questions = list(dict.fromkeys(row.question for row in rows))
    answered = dict.fromkeys((row.system for row in rows), 0)
    for row in rows:
        answered[row.system] += 1
    table: dict[str, Any] = {
        "ranked_by": ranking.ranked_by,
        "not_ranked": _why_not_ranked(ranking, len(answered)),
        "null_rows": primary.null_reasons(),
        "questions": len(questions),
        "common_questions": ranking.common_questions,
        "missing": {s: len(questions) - n for s, n in answered.items() if n < len(questions)},
        "unscored": [s for s in answered if s not in {r["system"] for r in records}],
        "systems": records,
    }
    if by_people:
        table["agreement_with_people"] = {
            "rank": _order_agreement(records, "rank", sign=1),
            "win_rate": _order_agreement(records, "win_rate", sign=-1),
        }
    return table


def _of_rival(found: SystemScore) -> dict[str, Any]:
    return {"mean": found.mean, "rank": found.rank, "n": found.n}


def _why_not_ranked(ranking: Ranking, systems: int) -> str | None:
    if ranking.ranked_by is not None:
        return None
    if not ranking.systems:
        return "no_scores"
    if len(ranking.systems) == 1:
        return "one_system" if systems == 1 else "one_scored_system"
    return "no_shared_question"


def _order_agreement(records: Sequence[dict[str, Any]], name: str, *, sign: int) -> dict[str, Any]:
    both = [
        (sign * record[name], -record["human_win_rate"])
        for record in records
        if record[name] is not None and record["human_win_rate"] is not None
    ]
    return kendall_tau_b([own for own, _ in both], [people for _, people in both])._asdict()


def _rank(rows: Sequence[AnswerRow], predictor: Predictor, seed: int, resamples: int) -> Ranking:
    scores: dict[str, dict[str, float]] = {row.system: {} for row in rows}
    for row, score in zip(rows, predictor.scores, strict=True):
        if score.value is not None:
            scores[row.system][row.question] = score.value
    return rank_systems(
        scores, higher_is_better=predictor.higher_is_better, seed=seed, resamples=resamples
    )


def _win_rates_of_people(rows: Sequence[AnswerRow]) -> dict[str, tuple[float, int]]:
    """Return for each system the share of its decided votes that it won, and their number."""
    won: dict[str, list[bool]] = {}
    for comparison in by_vote(rows).decided:
        is_first = comparison.is_first_preferred
        won.setdefault(rows[comparison.first].system, []).append(is_first)
        won.setdefault(rows[comparison.second].system, []).append(not is_first)
    return {system: (sum(wins) / len(wins), len(wins)) for system, wins in won.items()}
