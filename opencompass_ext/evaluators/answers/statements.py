"""What the numbers mean, in sentences: above all, whether the score beats the mere length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opencompass_ext.evaluators.answers.predictors import LENGTH
from opencompass_ext.metrics.bootstrap import MIN_UNITS
from opencompass_ext.words import counted, listed


def preference_statement(primary: str, agreement: Mapping[str, Any]) -> list[str]:
    """Return whether a score beats chance and length at predicting people's preferences.

    Args:
        primary: Name of the score.
        agreement: What ``preference_agreement`` returned.
    """
    overall = agreement["votes"]["groups"][0]
    of = {record["name"]: record for record in overall["predictors"]}
    own, length = of[primary], of[LENGTH]
    if own["accuracy"] is None:
        if overall["excluded"]:
            why = f"no decided vote is about two answers that both have a {primary}"
            return [f"There is nothing to agree with: {why} ({listed(overall['excluded'])})."]
        return ["There is nothing to agree with: no vote on two answers is decided."]
    difference = own["versus_length"]
    direction = agreement["votes"]["length_direction"]
    shown = _length_share(length, "accuracy", direction, whole=1.0)
    return [
        f"{primary} agrees with {_share(own, 'accuracy')} of {counted(overall['n'], 'vote')}, "
        f"{_against(own['accuracy_ci95'], 0.5, 'the same as chance (0.5)', overall)}.",
        f'"{direction.title()} wins" agrees with {shown} of the same votes. '
        f"{_verdict(primary, difference, 'accuracy', overall)}",
    ]


def ranks_statement(primary: str, ranks: Mapping[str, Any]) -> list[str]:
    """Return whether a score beats length at putting answers in the order of people's ranks.

    Args:
        primary: Name of the score.
        ranks: What ``ranks_agreement`` returned.
    """
    overall = ranks["groups"][0]
    of = {record["name"]: record for record in overall["predictors"]}
    own, length = of[primary], of[LENGTH]
    if not overall["n"]:
        return [f"No ranked answer has a {primary} ({listed(overall['excluded'])})."]
    if own["tau_b"] is None:
        return [f"No two ranked answers to a question differ in rank and {primary}: no tau-b."]
    said = (
        f"{primary} and people's ranks of {counted(overall['n'], 'answer')}: tau-b "
        f"{_share(own, 'tau_b')}, "
        f"{_against(own['tau_b_ci95'], 0.0, 'the same as chance (0)', overall)}"
    )
    if length["tau_b"] is None:
        return [f"{said}. The answers to a question are all of the same length."]
    direction = ranks["length_direction"]
    return [
        f"{said}; the {direction} first: {_length_share(length, 'tau_b', direction, whole=0.0)}. "
        f"{_verdict(primary, own['versus_length'], 'tau-b', overall)}"
    ]


def groundedness_statement(primary: str, found: Mapping[str, Any]) -> list[str]:
    """Return whether a score beats length at telling grounded answers from others.

    Args:
        primary: Name of the score.
        found: What ``groundedness`` returned.
    """
    of = {record["name"]: record for record in found["predictors"]}
    own, length = of[primary], of[LENGTH]
    if not found["n"]:
        return [f"No labelled answer has a {primary} ({listed(found['excluded'])})."]
    if own["auc"] is None:
        return ["The labelled answers with scores are all of one kind: there is no AUC."]
    direction = found["length_direction"]
    return [
        f"{primary} tells grounded answers from others with AUC {_share(own, 'auc')} on "
        f"{counted(found['n'], 'labelled answer')}; length ({direction} as grounded) does with "
        f"{_length_share(length, 'auc', direction, whole=1.0)}. "
        f"{_verdict(primary, own['versus_length'], 'AUC', found)}"
    ]


def coverage_statement(primary: str, systems: Mapping[str, Any]) -> list[str]:
    """Return on which questions the systems are compared, or why they are not.

    Args:
        primary: Name of the score.
        systems: What ``systems_table`` returned.
    """
    said = []
    if systems["missing"]:
        missing = ", ".join(f"{system} ({n})" for system, n in systems["missing"].items())
        said.append(
            f"Not every system answered all {counted(systems['questions'], 'question')}; missing "
            f"answers: {missing}."
        )
    if systems["not_ranked"] == "no_scores":
        reasons = f" (reasons: {listed(systems['null_rows'])})" if systems["null_rows"] else ""
        return [*said, f"There are no answers with a {primary} to compare{reasons}."]
    if systems["unscored"]:
        said.append(f"No answer of {', '.join(systems['unscored'])} has a score.")
    elif systems["null_rows"]:
        said.append(f"Some answers have no score: {listed(systems['null_rows'])}.")
    if systems["ranked_by"] is None or systems["common_questions"] < systems["questions"]:
        said.append(_compared_on(systems))
    return said


def _compared_on(systems: Mapping[str, Any]) -> str:
    if systems["ranked_by"] == "common_mean":
        common = counted(systems["common_questions"], "question")
        return (
            f"The rank is that of the mean over the {common} with a score of every system; the win "
            "rate uses each question that two systems share."
        )
    if systems["ranked_by"] == "win_rate":
        return (
            "No question has a score of every system, so the rank is that of the win rate, which "
            "compares two systems at a time on the questions they share."
        )
    if systems["not_ranked"] == "one_system":
        return f"There is only one system, {systems['systems'][0]['system']}, so there is no rank."
    if systems["not_ranked"] == "one_scored_system":
        name = systems["systems"][0]["system"]
        return f"Only one system, {name}, has answers with a score, so there is no rank."
    return "No two systems have a score on the same question, so there is no rank."


def _verdict(
    primary: str, difference: Mapping[str, Any], measure: str, group: Mapping[str, Any]
) -> str:
    value, interval, p = difference["value"], difference["ci95"], difference.get("p")
    shown = f"difference in {measure} {value:+.3f}"
    if interval is not None:
        shown += f" [{interval[0]:+.3f}, {interval[1]:+.3f}]"
    if p is not None:
        shown += f", p {p:.3g}"
    few = group["questions"] < MIN_UNITS
    if few and interval is not None and not interval[0] <= 0 <= interval[1]:
        questions = counted(group["questions"], "question")
        return (
            f"With only {questions} it cannot be told whether {primary} beats the length baseline: "
            f"{shown}."
        )
    if interval is not None and interval[0] > 0:
        return f"On these {primary} beats the length baseline: {shown}."
    if interval is not None and interval[1] < 0:
        return f"On these {primary} is worse than the length baseline: {shown}."
    return f"On these {primary} does not beat the length baseline: {shown}."


def _against(
    interval: Sequence[float] | None, chance: float, same: str, group: Mapping[str, Any]
) -> str:
    if interval is None or group["questions"] < MIN_UNITS:
        return "on too few questions to tell from chance"
    if interval[0] > chance:
        return "better than chance"
    if interval[1] < chance:
        return "worse than chance"
    return f"which may be {same}"


def _share(record: Mapping[str, Any], name: str) -> str:
    interval = record[f"{name}_ci95"]
    ends = "" if interval is None else f" [{interval[0]:.3f}, {interval[1]:.3f}]"
    return f"{record[name]:.3f}{ends}"


def _length_share(record: Mapping[str, Any], name: str, direction: str, *, whole: float) -> str:
    """Return the value of the longer answer, or that of the shorter one, which mirrors it.

    Args:
        record: The record of "longer wins".
        name: The measure.
        direction: ``"longer"`` or ``"shorter"``.
        whole: What the two values sum to.
    """
    interval = record[f"{name}_ci95"]
    if direction == "longer":
        return _share(record, name)
    ends = None if interval is None else (whole - interval[1], whole - interval[0])
    return _share({name: whole - record[name], f"{name}_ci95": ends}, name)
