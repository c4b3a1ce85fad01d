import json

import pytest

from opencompass_ext.outputs import RunFolder
from opencompass_ext.records import TaskOutcome, TaskSpec

INFER_CFG = {
    "prompt_template": {"type": "PromptTemplate", "template": "{text}"},
    "retriever": {"type": "ZeroRetriever"},
    "inferencer": {"type": "InferencePPLOnlyInferencer"},
}


@pytest.fixture
def run_folder(tmp_path):
    return RunFolder(tmp_path / "20260101_000000")


@pytest.fixture
def save(run_folder):
    """Write a results file."""

    def save(model, dataset, content):
        path = run_folder.results(model, dataset)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8")

    return save


@pytest.fixture
def models():
    return [{"abbr": "m1"}, {"abbr": "m2"}]


@pytest.fixture
def datasets():
    return [{"abbr": "d1", "infer_cfg": INFER_CFG}, {"abbr": "d2", "infer_cfg": INFER_CFG}]


@pytest.fixture
def fail(run_folder):
    """Make the outcome of a task that ended early."""

    def fail(model, *datasets, status="failed"):
        spec = TaskSpec(
            "OpenICLInferTask",
            {"abbr": model},
            tuple({"abbr": d} for d in datasets),
            str(run_folder.root),
        )
        return TaskOutcome(spec, status, error="ModelError: no weights", log="logs/x.out")

    return fail
