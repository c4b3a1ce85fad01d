"""The questions and answers that ship are what their READMEs say."""

from collections import Counter

import pytest

from opencompass_ext.datasets import PPLqaDataset

KINDS = ["entailed", "generic", "verbose", "subtly_wrong", "unrelated"]


@pytest.fixture(scope="module")
def battery():
    """Question -> kind -> answer, for each language."""
    questions = {}
    for row in PPLqaDataset(path="data/pplqa_sanity", name="sanity").test:
        questions.setdefault((row["category"], row["question"]), {})[row["model"]] = row["answer"]
    return questions


def test_the_battery_has_all_kinds_for_each_question(battery):
    assert all(list(answers) == KINDS for answers in battery.values())
    assert Counter(language for language, _ in battery) == {"en": 12, "zh": 10}


@pytest.mark.parametrize("kind", ["generic", "subtly_wrong", "unrelated"])
def test_answers_are_matched_to_the_entailed_one_in_length(battery, kind):
    ratios = [len(answers[kind]) / len(answers["entailed"]) for answers in battery.values()]
    assert 0.9 < min(ratios) <= max(ratios) < 1.1


def test_verbose_answers_are_the_long_ones(battery):
    ratios = [len(answers["verbose"]) / len(answers["entailed"]) for answers in battery.values()]
    assert 2.5 < min(ratios) <= max(ratios) < 5


@pytest.mark.parametrize("language", ["en", "zh"])
def test_unrelated_answers_are_the_entailed_ones_of_other_questions(battery, language):
    rows = [answers for (lang, _), answers in battery.items() if lang == language]
    assert Counter(a["unrelated"] for a in rows) == Counter(a["entailed"] for a in rows)
    assert all(a["unrelated"] != a["entailed"] for a in rows)


def test_wrong_answers_share_nearly_all_words_with_the_entailed_ones(battery):
    for answers in battery.values():
        right, wrong = (Counter(answers[kind]) for kind in ("entailed", "subtly_wrong"))
        assert answers["entailed"] != answers["subtly_wrong"]
        assert (right - wrong).total() < 0.2 * right.total()


def test_the_votes_on_mtbench_are_complete():
    rows = list(PPLqaDataset(path="data/pplqa", name="mtbench_human").test)
    votes = {row["id"]: row["preferences"] for row in rows}
    assert (len(rows), len(votes), sum(map(len, votes.values()))) == (149, 38, 108)
    winners = Counter(vote["winner"] for own in votes.values() for vote in own)
    assert winners == {"a": 50, "b": 58}
    assert len({row["category"] for row in rows}) == 8
