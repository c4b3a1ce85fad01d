"""Datasets, evaluators and inferencers that the task tests name."""

from pathlib import Path

import numpy

from opencompass_ext.evaluators import BaseEvaluator
from opencompass_ext.models import ScriptedModel


class Answers:
    """A dataset of two rows that counts how often it is built."""

    built = 0

    def __init__(self, rows=2, reader_cfg=None):
        Answers.built += 1
        self.test = AnswerRows({"answer": f"gold {i}"} for i in range(rows))


class AnswerRows(list):
    def __getitem__(self, key):
        return [row[key] for row in self] if isinstance(key, str) else super().__getitem__(key)


class WithReferences(BaseEvaluator):
    def score(self, predictions, references, test_set):
        return {"seen": [predictions, references, len(test_set)]}


class WithColumns(BaseEvaluator):
    def score(self, ppl, reason=None, nowhere="default"):
        return {"ppl_seen": ppl, "reason_seen": reason, "nowhere": nowhere}


class WithAllColumns(BaseEvaluator):
    def score(self, **columns):
        return {"columns": sorted(columns)}


class Returning(BaseEvaluator):
    def __init__(self, value):
        self.value = value

    def score(self, ppl):
        return self.value


class NotANumber(BaseEvaluator):
    def score(self, ppl):
        return {
            "accuracy": float("nan"),
            "single": numpy.float32("inf"),
            "good": numpy.float32(0.5),
            "nothing": None,
            "nested": {"x": float("inf")},
            "details": [float("nan")],
        }


class BuiltModel(ScriptedModel):
    built = 0

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        BuiltModel.built += 1


class PlainRetriever:
    def __init__(self, dataset, size=0):
        self.dataset = dataset
        self.size = size


class OpenCompassInferencer:
    """An inferencer of OpenCompass's kind: it takes any keyword, and knows of no progress."""

    calls = ()

    def __init__(self, model, max_seq_len=None, batch_size=1, **kwargs):
        self.arguments = {"max_seq_len": max_seq_len, "batch_size": batch_size, **kwargs}

    def inference(
        self,
        retriever,
        ice_template=None,
        prompt_template=None,
        output_json_filepath=None,
        output_json_filename=None,
    ):
        OpenCompassInferencer.calls += ((self.arguments, retriever, ice_template, prompt_template),)
        folder = Path(output_json_filepath)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / output_json_filename).write_text('{"0": {"prediction": "x"}}')
