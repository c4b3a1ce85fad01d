"""From rows to predictions, with a model whose numbers are known by hand."""

import json
import math
from types import SimpleNamespace

import pytest

from opencompass_ext.errors import ConfigError, DataError
from opencompass_ext.inferencers import InferencePPLOnlyInferencer
from opencompass_ext.models import ScriptedModel
from opencompass_ext.prompting import FixKRetriever, PromptTemplate, ZeroRetriever


def dataset(rows):
    return SimpleNamespace(test=rows, train=rows)


def infer(
    tmp_path, rows, template="{text}", model=None, retriever=ZeroRetriever, ice=None, **options
):
    inferencer = InferencePPLOnlyInferencer(
        model or ScriptedModel(vocab_size=2),
        output_json_filepath=str(tmp_path),
        output_json_filename="set.json",
        **options,
    )
    data = dataset(rows)
    return inferencer.inference(
        retriever(data),
        ice_template=ice,
        prompt_template=PromptTemplate(template, ice_token="</E>"),
    )


def test_a_row_gets_nll_and_length_of_its_label(tmp_path):
    rows = [{"text": "abcdef", "label": [[1, 3, 1], [4, 5, 1]]}, {"text": "xyz", "label": []}]
    first, second = infer(tmp_path, rows)
    assert first["origin_prompt"] == "abcdef"
    assert (first["token_len"], second["token_len"]) == (3, 0)
    assert first["ppl"] == pytest.approx(3 * math.log(2))
    assert second["ppl"] == 0.0
    on_disk = json.loads((tmp_path / "set.json").read_text(encoding="utf-8"))
    assert on_disk == {"0": first, "1": second}


class SpanKeeper(ScriptedModel):
    """Remembers what it was asked to score."""

    def score_spans(self, texts, **kwargs):
        self.asked = [
            [text.text[start:end] for start, end in text.spans["label"]] for text in texts
        ]
        yield from super().score_spans(texts, **kwargs)


def test_ranges_move_with_the_text_through_a_template(tmp_path):
    model = SpanKeeper()
    rows = [{"text": "ab{label}cd", "label": [[2, 9, 1], [10, 11, 1]]}]
    infer(tmp_path, rows, template="Read: {text} !", model=model)
    assert model.asked == [["{label}", "d"]]


def test_labelled_columns_are_what_the_template_rendered_from_them(tmp_path):
    model = SpanKeeper()
    rows = [{"question": "answer?", "answer": "{question} 答案"}]
    infer(
        tmp_path,
        rows,
        template="Q: {question}\nA: {answer} ({answer})",
        model=model,
        labelled_columns=["answer"],
    )
    assert model.asked == [["{question} 答案", "{question} 答案"]]


def test_examples_are_never_labelled(tmp_path):
    model = SpanKeeper()
    rows = [{"q": "1", "a": "one"}, {"q": "2", "a": "two"}]
    predictions = infer(
        tmp_path,
        rows,
        template="</E>Q{q} A{a}",
        model=model,
        labelled_columns=["a"],
        retriever=lambda data: FixKRetriever(data, fix_id_list=[0]),
        ice=PromptTemplate("Q{q} A{a}"),
    )
    assert predictions[1]["origin_prompt"] == "Q1 Aone\nQ2 Atwo"
    assert model.asked == [["one"], ["two"]]


@pytest.mark.parametrize(
    ("row", "template", "options", "error", "message"),
    [
        ({"text": "abc"}, "{text}", {}, DataError, "row 0: there is no column 'label'"),
        ({"text": "abc", "label": [[1, 9, 1]]}, "{text}", {}, DataError, r"row 0: .*\[1, 9\]"),
        ({"text": "abc", "label": [[0, 1.5]]}, "{text}", {}, DataError, r"row 0: .*\[0, 1.5\]"),
        ({"text": "abc", "label": [["0", "2"]]}, "{text}", {}, DataError, "row 0: .*whole numbers"),
        ({"text": "abc", "label": [[True, 2]]}, "{text}", {}, DataError, "row 0: .*whole numbers"),
        ({"text": "abc", "label": [[2, 0, 1]]}, "{text}", {}, DataError, r"row 0: .*\[2, 0\]"),
        ({"text": "abc", "label": [[0]]}, "{text}", {}, DataError, r"row 0: .*\[\[start, end, 1\]"),
        ({"text": "abc", "label": None}, "{text}", {}, DataError, "row 0: .*got None"),
        (
            {"text": 12, "label": [[0, 1]]},
            "{text}",
            {},
            DataError,
            "row 0: .*must hold text, got 12",
        ),
        ({"text": "abc", "label": []}, "{text}{text}", {}, ConfigError, "exactly once"),
        ({"text": "abc", "label": []}, "fixed", {}, ConfigError, "exactly once"),
        ({"a": "x"}, "{a}", {"labelled_columns": ["b"]}, ConfigError, "'b'.*inserts a"),
        ({"a": None}, "{a}", {"labelled_columns": ["a"]}, DataError, "row 0: .*column 'a'"),
    ],
)
def test_mistakes_are_named(tmp_path, row, template, options, error, message):
    with pytest.raises(error, match=message):
        infer(tmp_path, [row], template=template, **options)


def test_a_string_of_columns_is_refused():
    with pytest.raises(ConfigError, match=r"\['answer'\]"):
        InferencePPLOnlyInferencer(ScriptedModel(), labelled_columns="answer")


@pytest.mark.parametrize("batch_size", [0, -1, 1.5, True])
def test_a_batch_size_that_is_no_size_is_refused(batch_size):
    with pytest.raises(ConfigError, match="batch_size must be a whole number of at least 1"):
        InferencePPLOnlyInferencer(ScriptedModel(), batch_size=batch_size)


class Refusing(ScriptedModel):
    """Scores nothing: whatever is asked of it is too much."""

    def score_spans(self, texts, **kwargs):
        raise AssertionError("a finished row was scored again")


def test_finished_rows_are_not_scored_again(tmp_path):
    rows = [{"text": "abc", "label": [[0, 2, 1]]}]
    first = infer(tmp_path, rows)
    assert infer(tmp_path, rows, model=Refusing(vocab_size=2)) == first


def test_another_model_text_or_label_is_scored_anew(tmp_path):
    rows = [{"text": "abc", "label": [[0, 2, 1]]}]
    infer(tmp_path, rows)
    assert infer(tmp_path, rows, model=ScriptedModel(vocab_size=4))[0]["ppl"] > 2
    assert infer(tmp_path, [{"text": "abc", "label": [[0, 3, 1]]}])[0]["token_len"] == 3
    assert infer(tmp_path, [{"text": "xbc", "label": [[0, 3, 1]]}])[0]["origin_prompt"] == "xbc"


def test_progress_counts_rows_and_tokens(tmp_path):
    seen = []
    rows = [{"text": "abcd", "label": [[0, 2, 1]]} for _ in range(6)]
    infer(tmp_path, rows, model=ScriptedModel(batch_rows=4), progress=lambda *x: seen.append(x))
    assert seen == [(0, 6, 0), (4, 6, 16), (6, 6, 24)]


def test_an_empty_set_gives_an_empty_file(tmp_path):
    assert infer(tmp_path, []) == []
    assert json.loads((tmp_path / "set.json").read_text()) == {}


def test_the_provenance_says_what_made_the_rows(tmp_path):
    infer(tmp_path, [{"text": "abc", "label": []}], model=ScriptedModel(path="p"))
    provenance = json.loads((tmp_path / "set.provenance").read_text())
    assert provenance["model"]["identity"]["path"] == "p"
    assert provenance["inferencer"]["type"] == "InferencePPLOnlyInferencer"
