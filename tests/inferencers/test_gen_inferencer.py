"""Answers row by row, with a system whose answers are known."""

import json
from types import SimpleNamespace

import pytest

from opencompass_ext.errors import ConfigError, ModelError
from opencompass_ext.inferencers import GenInferencer
from opencompass_ext.models import ScriptedModel
from opencompass_ext.prompting import FixKRetriever, PromptTemplate, ZeroRetriever
from opencompass_ext.records import GeneratedText

ROWS = [{"id": str(i), "q": f"question {i}"} for i in range(4)]


class Echo(ScriptedModel):
    """Answers with the prompt in capitals, one row at a time."""

    def __init__(self, stop_after=99, takes_messages=False, settings=None, row_fields=()):
        super().__init__()
        self.takes_messages, self.row_fields = takes_messages, row_fields
        self.stop_after, self.asked, self.options = stop_after, [], []
        self.settings = settings or {}

    def generation_settings(self):
        return self.settings

    def generate_texts(self, requests, *, finished=(), **options):
        self.options.append(options)
        for i, request in enumerate(requests):
            if i in finished:
                continue
            if len(self.asked) == self.stop_after:
                raise ModelError("stopped")
            self.asked.append(request.prompt)
            text = str(request.prompt).upper()
            yield {i: GeneratedText(text, 3, 2, "stop", ["s"] if i == 1 else None)}


def infer(folder, model, template="Q: {q}", rows=ROWS, retriever=None, ice=None, **options):
    data = SimpleNamespace(test=rows, train=rows)
    inferencer = GenInferencer(
        model,
        output_json_filepath=str(folder),
        output_json_filename="d",
        **{"max_out_len": 7, **options},
    )
    return inferencer.inference(
        retriever or ZeroRetriever(data), ice, PromptTemplate(template, ice_token="</E>")
    )


def test_a_row_holds_prompt_answer_and_how_it_ended(tmp_path):
    rows = infer(tmp_path, Echo())
    assert rows[0] == {
        "origin_prompt": "Q: question 0",
        "prediction": "Q: QUESTION 0",
        "input_tokens": 3,
        "output_tokens": 2,
        "finish_reason": "stop",
    }
    assert [row.get("sources") for row in rows] == [None, ["s"], None, None]
    assert json.loads((tmp_path / "d.json").read_text()) == {str(i): r for i, r in enumerate(rows)}


def test_limits_reach_the_model(tmp_path):
    model = Echo()
    infer(tmp_path, model, min_out_len=2, stopping_criteria=["\n"], batch_size=3)
    assert model.options == [
        {"max_out_len": 7, "min_out_len": 2, "stop_words": ["\n"], "batch_rows": 3}
    ]


def test_a_chat_model_gets_messages_and_they_are_kept(tmp_path):
    dialogue = dict(
        begin=[dict(role="SYSTEM", prompt="Be brief."), "</E>"],
        round=[dict(role="HUMAN", prompt="{q}?"), dict(role="BOT", prompt="")],
    )
    data = SimpleNamespace(test=ROWS, train=ROWS)
    rows = infer(
        tmp_path,
        Echo(takes_messages=True),
        template=dialogue,
        retriever=FixKRetriever(data, fix_id_list=[3], ice_eos_token="|"),
        ice=PromptTemplate("<{q}>"),
    )
    assert rows[0]["origin_prompt"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "<question 3>|question 0?"},
    ]


def test_a_stopped_run_asks_only_for_the_rest(tmp_path):
    first, second = Echo(stop_after=2), Echo()
    with pytest.raises(ModelError):
        infer(tmp_path, first)
    infer(tmp_path, second)
    assert second.asked == ["Q: question 2", "Q: question 3"]


@pytest.mark.parametrize(
    "changed",
    [
        dict(max_out_len=8),
        dict(min_out_len=1),
        dict(stopping_criteria=["x"]),
        dict(template="{q}"),
        dict(model=Echo(settings={"temperature": 1})),
    ],
)
def test_answers_to_something_else_are_not_used_again(tmp_path, changed):
    infer(tmp_path, Echo())
    model = changed.pop("model", None) or Echo()
    infer(tmp_path, model, **changed)
    assert len(model.asked) == 4


def test_what_a_model_looks_at_besides_the_prompt_counts(tmp_path):
    infer(tmp_path, Echo(row_fields=("id",)))
    model = Echo(row_fields=("id",))
    infer(tmp_path, model, rows=[{**row, "id": row["id"] + "b"} for row in ROWS[:1]] + ROWS[1:])
    assert model.asked == ["Q: question 0"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (dict(max_out_len=None), "GenInferencer needs max_out_len"),
        (dict(max_out_len=0), "max_out_len must be a whole number of at least 1, got 0"),
        (dict(min_out_len=8), "min_out_len=8 is more than max_out_len=7"),
        (dict(stopping_criteria=["a", ""]), "stopping_criteria must hold texts that are not empty"),
        (dict(stopping_criteria="stop"), r"must be a list of texts, such as \['stop'\]"),
    ],
)
def test_wrong_settings_are_refused(tmp_path, wrong, message):
    with pytest.raises(ConfigError, match=message):
        infer(tmp_path, Echo(), **wrong)
