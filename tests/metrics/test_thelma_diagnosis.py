"""The six patterns of the diagnosis table, their cut-offs, and metrics without a value."""

import pytest

from opencompass_ext.metrics.thelma_diagnosis import RULES, diagnose, rule_holds

SP1, SP2 = "source_precision_chunk", "source_precision_fact"
SQC, RQC = "source_query_coverage", "response_query_coverage"
RP, SD, GR = "response_precision", "response_self_distinctness", "groundedness"


@pytest.mark.parametrize(
    ("scores", "name", "fix"),
    [
        ({SD: 0.2, RP: 0.9}, "repetitive", "prompt or generator"),
        ({SQC: 0.2, RQC: 0.2}, "not_retrieved", "retriever or source text"),
        ({SP1: 0.2, SQC: 0.9}, "noisy_retrieval", "retriever"),
        ({SP2: 0.2, SQC: 0.9}, "noisy_retrieval", "retriever"),
        ({RQC: 0.2, SQC: 0.9}, "retrieved_not_used", "prompt or generator"),
        ({RP: 0.2, SP1: 0.9}, "padded", "prompt or source chunking"),
        ({SQC: 0.2, RQC: 0.9, GR: 0.2}, "ungrounded", "prompt"),
    ],
)
def test_each_pattern_names_its_component(scores, name, fix):
    assert diagnose(scores) == [name]
    assert {rule.name: rule.fix for rule in RULES}[name] == fix


def test_all_patterns_that_hold_are_told():
    assert diagnose({SP1: 0.1, SQC: 1.0, RQC: 0.0}) == ["noisy_retrieval", "retrieved_not_used"]


def test_chunks_go_before_facts_where_both_were_judged():
    assert diagnose({SP1: 0.8, SP2: 0.1, SQC: 0.9}) == []


def test_low_ends_below_its_cut_off_and_high_begins_at_its_own():
    assert diagnose({RQC: 0.5, SQC: 0.7}) == []
    assert diagnose({RQC: 0.499, SQC: 0.7}) == ["retrieved_not_used"]
    assert diagnose({RQC: 0.5, SQC: 0.6}, low=0.6, high=0.6) == ["retrieved_not_used"]


def test_a_metric_without_a_value_leaves_a_pattern_open_unless_another_refutes_it():
    (ungrounded,) = [rule for rule in RULES if rule.name == "ungrounded"]
    assert rule_holds(ungrounded, {SQC: 0.2, RQC: 0.9, GR: None}) is None
    assert rule_holds(ungrounded, {SQC: 0.8, RQC: 0.9, GR: None}) is False
    assert diagnose({SQC: 0.2, RQC: 0.9, GR: None}) == []


def test_a_perfect_system_has_no_diagnosis():
    assert diagnose(dict.fromkeys((SP1, SP2, SQC, RQC, RP, SD, GR), 1.0)) == []
