import statistics

import pytest

from opencompass_ext.errors import ConfigError
from opencompass_ext.summarizers.groups import combine, read_group
from opencompass_ext.summarizers.results import PairResults

RESULTS = {
    "a": PairResults({"acc": 10.0, "f1": 1.0}),
    "b": PairResults({"acc": 20.0, "f1": 3.0}),
    "c": PairResults({"bleu": 60.0}),
    "empty": PairResults(),
    "null": PairResults({"acc": None}),
}
METRICS = {
    "a": ["acc", "f1"],
    "b": ["acc", "f1"],
    "c": ["bleu"],
    "empty": ["acc"],
    "null": ["acc"],
}


def value_of(**config):
    group = read_group({"name": "g", **config})
    result = combine(group, RESULTS, METRICS)
    return group.metric, result.metrics.get(group.metric)


@pytest.mark.parametrize(
    ("config", "metric", "value"),
    [
        ({}, "naive_average", 30.0),
        ({"sum": True}, "sum", 90.0),
        ({"std": True}, "standard_deviation", statistics.pstdev([10.0, 20.0, 60.0])),
        ({"harmonic_mean": True}, "harmonic_mean", statistics.harmonic_mean([10, 20, 60])),
        ({"weights": {"a": 1, "b": 2, "c": 1}}, "weighted_average", 27.5),
        ({"weights": {"a": 1, "b": 0, "c": 0}}, "weighted_average", 10.0),
        ({"weights": {"a": 1, "b": 2, "c": 1}, "sum": True}, "sum", 110.0),
    ],
)
def test_first_metrics_are_combined(config, metric, value):
    assert value_of(subsets=["a", "b", "c"], **config) == (metric, pytest.approx(value))


def test_a_member_may_name_its_metric():
    subsets = [["a", "f1"], ["b", "acc"], "c"]
    assert value_of(subsets=subsets) == ("naive_average", pytest.approx((1 + 20 + 60) / 3))


def test_a_metric_that_all_members_have_is_combined():
    assert value_of(subsets=["a", "b"], metric="f1") == ("f1", 2.0)


def test_a_metric_that_not_all_members_have_is_a_name_for_their_first_ones():
    assert value_of(subsets=["a", "c"], metric="score") == ("score", 35.0)
    assert value_of(subsets=["a", "c"], metric="f1") == ("f1", 35.0)


def test_weights_may_name_the_metric_too():
    config = {"subsets": [["a", "acc"], ["a", "f1"]], "weights": {"a@acc": 3, "a@f1": 1}}
    assert value_of(**config) == ("weighted_average", 7.75)


@pytest.mark.parametrize("missing", ["empty", "nowhere"])
def test_a_missing_member_leaves_no_value(missing):
    group = read_group({"name": "g", "subsets": ["a", missing]})
    result = combine(group, RESULTS, METRICS)
    assert result.metrics == {}
    assert [member.split()[0] for member in result.missing_members] == [missing]


def test_a_member_without_a_value_gives_null_and_says_which():
    group = read_group({"name": "g", "subsets": ["a", "null"]})
    result = combine(group, RESULTS, METRICS)
    assert result.metrics == {"naive_average": None}
    assert result.reasons == {"naive_average": "no value of null acc"}


def test_a_harmonic_mean_of_zero_is_null():
    results = {"x": PairResults({"m": 0.0}), "y": PairResults({"m": 1.0})}
    group = read_group({"name": "g", "subsets": ["x", "y"], "harmonic_mean": True})
    result = combine(group, results, {"x": ["m"], "y": ["m"]})
    assert result.metrics == {"harmonic_mean": None}
    assert "above 0" in result.reasons["harmonic_mean"]


@pytest.mark.parametrize(
    "operation",
    [{"std": True}, {"weights": {"x": 9, "y": 1}}, {"weights": {"x": 9, "y": 1}, "sum": True}],
)
def test_a_value_beyond_floats_is_null_with_a_reason(operation):
    results = {"x": PairResults({"m": 1e308}), "y": PairResults({"m": 1.0})}
    group = read_group({"name": "g", "subsets": ["x", "y"], **operation})
    result = combine(group, results, {"x": ["m"], "y": ["m"]})
    assert list(result.metrics.values()) == [None]
    assert list(result.reasons.values()) == ["too_large_for_a_float"]


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"subsets": ["a"]}, "needs the key 'name'"),
        ({"name": "g"}, "'g' needs the key 'subsets'"),
        ({"name": "g", "subsets": []}, "'g' needs the key 'subsets'"),
        ({"name": "g", "subsets": "a"}, "'g' needs the key 'subsets'"),
        ({"name": "g", "subsets": [3]}, "a subset is the abbr of a dataset"),
        ({"name": "g", "subsets": [["a"]]}, "a subset is the abbr of a dataset"),
        ({"name": "g", "subsets": ["a"], "weight": {}}, "no key 'weight': did you mean 'weights'"),
        ({"name": "g", "subsets": ["a"], "std": True, "sum": True}, "choose one of std, sum"),
        ({"name": "g", "subsets": ["abc"], "weights": {"abd": 1}}, "did you mean 'abc'"),
        ({"name": "g", "subsets": ["a", "b"], "weights": {"a": 1}}, "gives no weight to 'b'"),
        ({"name": "g", "subsets": ["a"], "weights": [1]}, "weights must be a dict of numbers"),
        ({"name": "g", "subsets": ["a"], "metric": 5}, "metric must be a text, got 5"),
        ({"name": "g", "subsets": ["a"], "weights": {"a": 0}}, "the weights sum to 0"),
        ({"name": "g", "subsets": ["a"], "weights": {"a": -1}}, "a number from 0 up"),
        ({"name": "g", "subsets": ["a"], "weights": {"a": "1"}}, "a number from 0 up"),
        ({"name": "g", "subsets": ["a"], "weights": {"a": 1}, "std": True}, "do not apply to"),
    ],
)
def test_a_wrong_group_is_refused(config, says):
    with pytest.raises(ConfigError) as caught:
        read_group(config)
    assert says in str(caught.value)
