import pytest
from datasets import Dataset, DatasetDict

from opencompass_ext.datasets import BaseDataset, DatasetReader
from opencompass_ext.errors import ConfigError, DataError

TEN = Dataset.from_dict({"q": [f"q{i}" for i in range(10)], "a": [str(i) for i in range(10)]})


class Ten(BaseDataset):
    @staticmethod
    def load(kind="plain"):
        return TEN if kind == "plain" else DatasetDict(train=TEN.select([8, 9]), validation=TEN)


def test_data_without_splits_serve_both_uses():
    data = Ten(reader_cfg={"input_columns": ["q"], "output_column": "a"})
    assert data.train["q"][:] == data.test["q"][:] == TEN["q"][:]


def test_columns_may_be_written_as_one_text():
    assert DatasetReader(TEN, input_columns="q a").input_columns == ["q", "a"]


def test_without_input_columns_all_but_the_output_are_inputs():
    assert DatasetReader(TEN, output_column="a").input_columns == ["q"]
    assert DatasetReader(TEN).input_columns == ["q", "a"]


def test_references_are_the_output_column():
    assert DatasetReader(TEN, output_column="a", test_range="[3:5]").references == ["3", "4"]
    assert DatasetReader(TEN).references is None


def test_splits_are_chosen_by_name():
    reader = {"test_split": "validation", "test_range": "[2:4]", "train_range": "[1:]"}
    data = Ten(kind="splits", reader_cfg=reader)
    assert data.test["q"][:] == ["q2", "q3"]
    assert data.train["q"][:] == ["q9"]
    assert {name: len(part) for name, part in data.reader.dataset.items()} == {
        "train": 1,
        "test": 2,
    }


def test_a_missing_test_split_names_the_splits(message):
    text = message(ConfigError, Ten, kind="splits", reader_cfg={"test_split": "validaton"})
    assert text == (
        "the data has no split 'validaton' (key reader_cfg -> test_split): "
        "did you mean 'validation'?"
    )


def test_a_missing_train_split_is_an_error_only_when_it_is_used(message):
    data = Ten(kind="splits", reader_cfg={"test_split": "validation", "train_split": "x"})
    assert len(data.test) == 10
    assert "train_split" in message(ConfigError, lambda: data.train)


@pytest.mark.parametrize("key", ["input_columns", "output_column"])
def test_an_unknown_column_is_answered_with_the_near_ones(message, key):
    data = Dataset.from_dict({"question": ["a"], "answer": ["b"]})
    value = "questions" if key == "output_column" else ["answer", "questions"]
    text = message(ConfigError, DatasetReader, data, **{key: value})
    assert f"no column 'questions' (key reader_cfg -> {key})" in text
    assert "did you mean 'question'?" in text


def test_a_row_without_a_value_is_named_by_its_place_in_the_data(message):
    data = Dataset.from_dict({"q": ["a", "b", None, "d"]})
    text = message(DataError, DatasetReader, data, input_columns=["q"], test_range="[1:]")
    assert text.startswith("row 2: no value in column 'q'")


def test_limit_takes_the_first_rows_that_the_range_leaves():
    cfg = {"test_range": "[4:]"}
    assert Ten(reader_cfg=cfg, limit=3).test["q"][:] == ["q4", "q5", "q6"]
    drawn = Ten(reader_cfg={"test_range": 6}).test["q"][:]
    assert Ten(reader_cfg={"test_range": 6}, limit=2).test["q"][:] == drawn[:2]
    assert len(Ten(limit=99).test) == 10


def test_limit_leaves_the_training_rows_alone():
    assert len(Ten(limit=2).train) == 10


@pytest.mark.parametrize("limit", [0, -3, 1.5, True, "5"])
def test_limit_must_be_a_number_of_rows(message, limit):
    assert repr(limit) in message(ConfigError, Ten, limit=limit)


def test_a_wrong_range_names_its_key(message):
    assert message(ConfigError, Ten, reader_cfg={"test_range": "5:"}).startswith("test_range: ")
    data = Ten(reader_cfg={"train_range": "[99:]"})
    assert message(ConfigError, lambda: data.train).startswith("train_range: ")


@pytest.mark.parametrize("key", ["test_rnge", "dataset", "where", "limit"])
def test_an_unknown_reader_key_is_refused(message, key):
    text = message(ConfigError, Ten, reader_cfg={key: 1})
    assert text.startswith(f"reader_cfg of Ten has no key {key!r}: ")


def test_load_must_return_a_dataset(message):
    class Rows(BaseDataset):
        @staticmethod
        def load():
            return [{"q": 1}]

    assert "got list: Dataset.from_list(rows) makes one" in message(TypeError, Rows)


def test_load_may_take_any_key(message):
    class Free(BaseDataset):
        @staticmethod
        def load(path, **kwargs):
            return Dataset.from_dict({"q": [f"{path} {kwargs['more']}"]})

    assert Free(path="p", more="m").test["q"][:] == ["p m"]
    assert message(ConfigError, Free, more="m") == "Free needs the key 'path'"


def test_a_dataset_that_was_already_cut_is_read_as_it_stands(message):
    cut = Dataset.from_dict({"q": ["a", None, "c", None]}).select([2, 0])
    assert DatasetReader(cut, input_columns=["q"], test_range="[1:]").test["q"][:] == ["a"]
    cut = Dataset.from_dict({"q": ["a", None, "c", None]}).select([2, 3, 0])
    text = message(DataError, DatasetReader, cut, input_columns=["q"])
    assert text.startswith("row 1: ")


GROUPED = Dataset.from_dict({"id": list("aabccc"), "n": list(range(6))})


@pytest.mark.parametrize(
    ("options", "rows"),
    [
        ({}, [0, 1, 2, 3, 4, 5]),
        ({"limit": 2}, [0, 1, 2]),
        ({"test_range": "[1:]"}, [2, 3, 4, 5]),
        ({"test_range": "[::-1]", "limit": 2}, [3, 4, 5, 2]),
    ],
)
def test_ranges_and_limits_count_groups(options, rows):
    reader = DatasetReader(GROUPED, group_column="id", **options)
    assert reader.test["n"][:] == rows


def test_a_draw_takes_whole_groups():
    drawn = DatasetReader(GROUPED, group_column="id", test_range=2).test["id"][:]
    assert len(set(drawn)) == 2
    assert sorted(drawn) == sorted(name for name in "aabccc" if name in set(drawn))
