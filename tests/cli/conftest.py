import sys
import textwrap

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
def write(tmp_path, monkeypatch):
    """Write a file into the working folder and return its path."""
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, text: str):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return write_file


@pytest.fixture
def config_file(write):
    """A config that runs in a moment, with its data beside it in the working folder."""
    write("demo.jsonl", ROWS)
    return write("eval_demo.py", CONFIG)
