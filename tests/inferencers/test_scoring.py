"""Rows of several texts: scored together, kept one by one."""

import json
from types import SimpleNamespace

import pytest

from opencompass_ext.errors import DataError, ModelError, TextError
from opencompass_ext.inferencers.scoring import ScoringInferencer
from opencompass_ext.models import ScriptedModel
from opencompass_ext.prompting import ZeroRetriever
from opencompass_ext.records import LabelledText

ROWS = [{"long": "abcdefgh" + str(i), "short": "xy" + str(i)} for i in range(5)]


class TwoTexts(ScoringInferencer):
    needs_template = False

    def label(self, row, prompt):
        return {
            name: LabelledText(row[name], {"all": ((0, len(row[name])),)})
            for name in ("long", "short")
        }

    def to_prediction(self, row, texts, scored):
        return {"id": row["long"], **{name: scored[name]["spans"]["all"] for name in texts}}


def infer(folder, model, progress=None):
    inferencer = TwoTexts(
        model,
        output_json_filepath=str(folder),
        output_json_filename="d.json",
        progress=progress,
    )
    return inferencer.inference(ZeroRetriever(SimpleNamespace(test=ROWS, train=ROWS)))


class Recorder(ScriptedModel):
    """Scores the short texts last, one at a time, and remembers what it was asked for."""

    def __init__(self, stop_after=None, **options):
        super().__init__(**options)
        self.asked = []
        self.stop_after = stop_after

    def score_spans(self, texts, *, finished=(), **options):
        todo = [i for i in range(len(texts)) if i not in finished]
        for i in sorted(todo, key=lambda i: -len(texts[i].text)):
            if self.stop_after is not None and len(self.asked) == self.stop_after:
                raise ModelError("stopped")
            self.asked.append(texts[i].text)
            yield {i: self._score(texts[i])}


def test_each_text_of_a_row_is_scored_once_and_the_row_holds_all(tmp_path):
    model = Recorder()
    rows = infer(tmp_path, model)
    assert sorted(model.asked) == sorted(text for row in ROWS for text in row.values())
    assert [(row["long"]["token_len"], row["short"]["token_len"]) for row in rows] == [(9, 3)] * 5
    assert json.loads((tmp_path / "d.json").read_text()) == {str(i): r for i, r in enumerate(rows)}


@pytest.mark.parametrize("stop_after", [1, 4, 7, 9])
def test_after_a_stop_only_texts_without_a_score_are_asked_for(tmp_path, stop_after):
    whole = tmp_path / "whole"
    infer(whole, Recorder())
    first = Recorder(stop_after=stop_after)
    with pytest.raises(ModelError):
        infer(tmp_path, first)
    second = Recorder()
    infer(tmp_path, second)
    assert len(first.asked) + len(second.asked) == 10
    assert not set(first.asked) & set(second.asked)
    assert (tmp_path / "d.json").read_bytes() == (whole / "d.json").read_bytes()


def test_a_stop_between_the_last_part_of_a_row_and_the_row_costs_no_score(tmp_path):
    with pytest.raises(ModelError):
        infer(tmp_path, Recorder(stop_after=6))
    journal = tmp_path / "d.journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    assert b'"row"' in lines[-1]
    part = json.loads(lines[-1])
    row = part.pop("row")
    part["part"] = {"short": {"spans": {"all": row["short"]}, "text_tokens": 3}}
    journal.write_bytes(b"".join(lines[:-1]) + json.dumps(part).encode() + b"\n")
    second = Recorder()
    assert infer(tmp_path, second)[0] == row
    assert len(second.asked) == 4


def test_progress_counts_texts_by_their_share_of_a_row(tmp_path):
    told = []
    with pytest.raises(ModelError):
        infer(tmp_path, Recorder(stop_after=3), lambda *event: told.append(event))
    infer(tmp_path, Recorder(), lambda *event: told.append(event))
    assert [(done, total) for done, total, _ in told] == [
        *[(0, 5), (0, 5), (1, 5), (1, 5)],
        *[(0, 5), (2, 5), (2, 5), (3, 5), (3, 5), (4, 5), (4, 5), (5, 5)],
    ]


def test_an_error_about_a_text_names_the_row_and_which_text(tmp_path):
    class TooShort(ScriptedModel):
        def score_spans(self, texts, **options):
            raise TextError(3, "it has 9 tokens and the model takes 2")
            yield

    with pytest.raises(DataError, match=r"^row 1, text 'short': it has 9 tokens"):
        infer(tmp_path, TooShort())


class OutOfReach(ScriptedModel):
    """A model that must not be needed; it says it is the one of ``Recorder``."""

    def score_spans(self, texts, **options):
        raise AssertionError("asked to score")

    def provenance(self):
        raise AssertionError("loaded")


@pytest.mark.parametrize("label_columns", [("votes",), ()])
def test_a_changed_column_that_no_model_reads_needs_no_model(tmp_path, label_columns):
    def run(model, votes):
        rows = [{**row, "votes": votes} for row in ROWS]
        data = SimpleNamespace(test=rows, train=rows, label_columns=label_columns)
        inferencer = TwoTexts(model, output_json_filepath=str(tmp_path), output_json_filename="d")
        inferencer.inference(ZeroRetriever(data))
        provenance = json.loads((tmp_path / "d.provenance").read_text())
        return provenance, (tmp_path / "d.json").read_bytes()

    first, rows = run(Recorder(), ["a"])
    second, rows_again = run(OutOfReach(), ["b"])
    assert rows == rows_again
    assert second["model"] == first["model"]
    assert (second["data_keys"] == first["data_keys"]) is bool(label_columns)
