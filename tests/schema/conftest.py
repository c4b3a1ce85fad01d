import copy
import textwrap

import pytest

GOOD = {
    "models": [{"type": "ScriptedModel", "abbr": "uniform", "run_cfg": {"num_gpus": 0}}],
    "datasets": [
        {
            "type": "opencompass.datasets.InferencePPLDataset",
            "abbr": "demo",
            "path": "data/demo.jsonl",
            "reader_cfg": {"input_columns": ["text"], "output_column": None},
            "infer_cfg": {
                "prompt_template": {"type": "PromptTemplate", "template": "{text}"},
                "retriever": {"type": "ZeroRetriever"},
                "inferencer": {"type": "InferencePPLOnlyInferencer"},
            },
            "eval_cfg": {"evaluator": {"type": "AverageInferencePPLEvaluator"}},
        }
    ],
}


@pytest.fixture
def config():
    """A config that is as it should be, to be spoiled."""
    return copy.deepcopy(GOOD)


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a config file into the working folder and return its path."""
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, text: str):
        path = tmp_path / name
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return write_file
