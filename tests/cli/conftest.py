import sys

import pytest

from opencompass_ext.user_code import FOLDERS_VARIABLE

CONFIG = """
    models = [dict(type='ScriptedModel', abbr='uniform', vocab_size=4)]
    datasets = [
        dict(
            abbr='demo',
            type='InferencePPLDataset',
            path='demo.jsonl',
            reader_cfg=dict(input_columns=['text'], output_column=None),
            infer_cfg=dict(
                prompt_template=dict(type='PromptTemplate', template='{text}'),
                retriever=dict(type='ZeroRetriever'),
                inferencer=dict(type='InferencePPLOnlyInferencer')),
            eval_cfg=dict(evaluator=dict(type='AverageInferencePPLEvaluator')))
    ]
"""
ROWS = '{"text": "one two", "label": [[0, 3, 1]]}\n{"text": "three", "label": [[1, 5, 1]]}\n'


@pytest.fixture(autouse=True)
def _leave_no_trace(monkeypatch):
    monkeypatch.setenv(FOLDERS_VARIABLE, "")
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture
def config_file(write):
    """A config that runs in a moment, with its data beside it in the working folder."""
    write("demo.jsonl", ROWS)
    return write("eval_demo.py", CONFIG)
