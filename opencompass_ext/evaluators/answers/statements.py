"""What the numbers mean, in sentences: above all, whether the score beats the mere length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opencompass_ext.evaluators.answers.predictors import LENGTH


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
        return [f"No decided vote is about two answers that both have a {primary}."]
    difference = own["versus_length"]
    direction = agreement["votes"]["length_direction"]
    shown = _length_share(length, "accuracy", direction, whole=1.0)
    return [
        f"{primary} agrees with {_share(own, 'accuracy')} of {overall['n']} votes, "
        f"{_against(own['accuracy_ci95'], 0.5, 'chance', 'the same as chance (0.5)')}.",
        f'"{direction.title()} wins" agrees with {shown} of the same votes. '
        f"{_verdict(primary, difference, 'accuracy')}",
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
    if own["tau_b"] is None:
        return [f"No two ranked answers to a question differ in rank and {primary}: no tau-b."]
    said = (
        f"{primary} and people's ranks of {overall['n']} answers: tau-b {_share(own, 'tau_b')}, "
        f"{_against(own['tau_b_ci95'], 0.0, 'chance', 'the same as chance (0)')}"
    )
    if length["tau_b"] is None:
        return [f"{said}. The answers to a question are all of the same length."]
    direction = ranks["length_direction"]
    return [
        f"{said}; the {direction} first: {_length_share(length, 'tau_b', direction, whole=0.0)}. "
        f"{_verdict(primary, own['versus_length'], 'tau-b')}"
    ]


def groundedness_statement(primary: str, found: Mapping[str, Any]) -> list[str]:
    """Return whether a score beats length at telling grounded answers from others.

    Args:
        primary: Name of the score.
        found: What ``groundedness`` returned.
    """
    of = {record["name"]: record for record in found["predictors"]}
    own, length = of[primary], of[LENGTH]
    if own["auc"] is None:
        return ["The labelled answers with scores are all of one kind: there is no AUC."]
    direction = found["length_direction"]
    return [
        f"{primary} tells grounded answers from others with AUC {_share(own, 'auc')} on "
        f"{found['n']} labelled answers; length ({direction} as grounded) does with "
        f"{_length_share(length, 'auc', direction, whole=1.0)}. "
        f"{_verdict(primary, own['versus_length'], 'AUC')}"
    ]


def coverage_statement(systems: Mapping[str, Any]) -> list[str]:
    """Return on which questions the systems are compared, where some did not answer all."""
    said = []
    if systems["missing"]:
        listed = ", ".join(f"{system} ({n})" for system, n in systems["missing"].items())
        said.append(
            f"Not every system answered all {_count(systems['questions'])}; missing answers: "
            f"{listed}. {_compared_on(systems)}"
        )
    elif systems["common_questions"] < systems["questions"] and len(systems["systems"]) > 1:
        said.append(f"Some answers have no score. {_compared_on(systems)}")
    if systems["unscored"]:
        said.append(f"No answer of {', '.join(systems['unscored'])} has a score.")
    return said


def _compared_on(systems: Mapping[str, Any]) -> str:
    if systems["ranked_by"] == "common_mean":
        return (
            f"The rank is that of the mean over the {_count(systems['common_questions'])} with a "
            "score of every system; the win rate uses each question that two systems share."
        )
    if systems["ranked_by"] == "win_rate":
        return (
            "No question has a score of every system, so the rank is that of the win rate, which "
            "compares two systems at a time on the questions they share."
        )
    return "No two systems share a question, so there is no rank."


def _verdict(primary: str, difference: Mapping[str, Any], measure: str) -> str:
    value, interval, p = difference["value"], difference["ci95"], difference.get("p")
    shown = f"difference in {measure} {value:+.3f}"
    if interval is not None:
        shown += f" [{interval[0]:+.3f}, {interval[1]:+.3f}]"
    if p is not None:
        shown += f", p {p:.3g}"
    if interval is not None and interval[0] > 0:
        return f"On these {primary} beats the length baseline: {shown}."
    if interval is not None and interval[1] < 0:
        return f"On these {primary} is worse than the length baseline: {shown}."
    return f"On these {primary} does not beat the length baseline: {shown}."


def _against(interval: Sequence[float] | None, chance: float, name: str, same: str) -> str:
    if interval is None:
        return f"too few questions to tell from {name}"
    if interval[0] > chance:
        return f"better than {name}"
    if interval[1] < chance:
        return f"worse than {name}"
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


def _count(questions: int) -> str:
    return f"{questions} question{'' if questions == 1 else 's'}"
