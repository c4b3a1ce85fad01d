import json

import pytest
import task_fakes

from opencompass_ext.errors import ConfigError, DataError, PredictionsError
from opencompass_ext.outputs import RunFolder
from opencompass_ext.prompting import PromptTemplate
from opencompass_ext.records import TaskSpec
from opencompass_ext.tasks import ModelCache, OpenICLEvalTask, OpenICLInferTask
from opencompass_ext.writing import write_json


def spec(tmp_path, evaluator=None, model=None, **dataset):
    dataset = {"abbr": "d", "type": "task_fakes.Answers", **dataset}
    if evaluator is not None:
        dataset["eval_cfg"] = {"evaluator": {"type": f"task_fakes.{evaluator}"}}
    return TaskSpec("T", {"abbr": "m", **(model or {})}, (dataset,), str(tmp_path))


def report(rows_done, rows_total, tokens_done):
    pass


ROWS = [{"prediction": "p0", "ppl": 1.0}, {"prediction": "p1", "ppl": None, "reason": "why"}]


@pytest.fixture
def evaluate(tmp_path):
    """Evaluate rows and return the results file."""

    def evaluate(evaluator, rows=ROWS, *, options=None, arguments=None, **dataset):
        folder = RunFolder(tmp_path)
        if rows is not None:
            write_json(folder.predictions("m", "d"), {str(i): row for i, row in enumerate(rows)})
        task = spec(tmp_path, evaluator, **dataset)
        task.datasets[0]["eval_cfg"]["evaluator"].update(arguments or {})
        assert OpenICLEvalTask(task, **(options or {})).run(report, ModelCache()) == "done"
        return json.loads(folder.results("m", "d").read_text())

    return evaluate


def test_score_gets_the_columns_it_names_and_no_other(evaluate):
    before = task_fakes.Answers.built
    result = evaluate("WithColumns")
    assert result["ppl_seen"] == [1.0, None]
    assert result["reason_seen"] == [None, "why"]
    assert result["nowhere"] == "default"
    assert task_fakes.Answers.built == before


def test_score_with_any_keyword_gets_all_columns(evaluate):
    assert evaluate("WithAllColumns")["columns"] == ["ppl", "prediction", "predictions", "reason"]


@pytest.mark.parametrize(
    ("reader_cfg", "references"),
    [({"output_column": "answer"}, ["gold 0", "gold 1"]), ({"output_column": None}, None)],
)
def test_references_come_from_the_dataset(evaluate, reader_cfg, references):
    result = evaluate("WithReferences", reader_cfg=reader_cfg)
    assert result["seen"] == [["p0", "p1"], references, 2]


def test_predictions_of_another_number_of_rows_are_refused(evaluate):
    with pytest.raises(PredictionsError, match="has 2 rows, its predictions have 3"):
        evaluate("WithReferences", rows=[*ROWS, ROWS[0]])


def test_a_missing_column_is_named(evaluate):
    with pytest.raises(PredictionsError, match=r"'ppl'.*columns: prediction, predictions"):
        evaluate("WithColumns", rows=[{"prediction": "p0"}])


def test_missing_predictions_say_what_to_do(evaluate):
    with pytest.raises(PredictionsError, match="run inference first"):
        evaluate("WithColumns", rows=None)


def test_what_is_no_number_becomes_null_with_a_reason(evaluate):
    result = evaluate("NotANumber")
    assert [result[k] for k in ("accuracy", "single", "good", "nothing")] == [None, None, 0.5, None]
    assert result["reasons"] == {"accuracy": "non_finite", "single": "non_finite"}
    assert result["nested"] == {"x": None}
    assert result["details"] == [None]


def test_an_error_that_the_evaluator_returns_fails_the_task(evaluate):
    with pytest.raises(DataError, match="lengths differ"):
        evaluate("Returning", arguments={"value": {"error": "lengths differ"}})
    with pytest.raises(TypeError, match="must return a dict"):
        evaluate("Returning", arguments={"value": 3})


def test_details_can_be_left_out(evaluate):
    value = {"a": 1, "details": [1, 2]}
    kept = evaluate("Returning", arguments={"value": value})
    assert list(kept) == ["a", "details", "provenance"]
    left_out = evaluate("Returning", arguments={"value": value}, options={"dump_details": False})
    assert list(left_out) == ["a", "provenance"]
    assert kept["provenance"]["evaluator"]["type"] == "task_fakes.Returning"


def test_eval_needs_only_the_gpus_of_its_evaluator(tmp_path):
    task = spec(tmp_path, "WithColumns", model={"run_cfg": {"num_gpus": 8}})
    assert OpenICLEvalTask.num_gpus(task) == 0
    assert OpenICLInferTask.num_gpus(task) == 8
    task.datasets[0]["eval_cfg"]["num_gpus"] = 1
    assert OpenICLEvalTask.num_gpus(task) == 1


def test_eval_of_all_models_can_share_a_worker_and_infer_cannot(tmp_path):
    one, other = (spec(tmp_path, "WithColumns", model={"abbr": m}) for m in "mk")
    assert OpenICLEvalTask.worker_group(one) == OpenICLEvalTask.worker_group(other)
    assert OpenICLInferTask.worker_group(one) != OpenICLInferTask.worker_group(other)


def infer_spec(tmp_path, infer_cfg=None, **model):
    default = {
        "prompt_template": {"type": "PromptTemplate", "template": "P{answer}"},
        "ice_template": {"type": "PromptTemplate", "template": "I{answer}"},
        "retriever": {"type": "task_fakes.PlainRetriever", "size": 3},
        "inferencer": {"type": "task_fakes.OpenCompassInferencer", "batch_size": 7},
    }
    model = {"type": "ScriptedModel", "run_cfg": {"num_gpus": 0}, **model}
    return spec(tmp_path, model=model, infer_cfg=infer_cfg or default)


def test_infer_builds_what_the_config_names(tmp_path):
    task = infer_spec(tmp_path, batch_size=4, max_out_len=9, summarizer_abbr="s")
    assert OpenICLInferTask(task).run(report, ModelCache()) == "done"
    arguments, retriever, ice, prompt = task_fakes.OpenCompassInferencer.calls[-1]
    # The inferencer's own batch size wins over the model's.
    assert arguments == {"max_seq_len": None, "batch_size": 7, "max_out_len": 9}
    assert retriever.size == 3
    assert isinstance(retriever.dataset, task_fakes.Answers)
    assert isinstance(ice, PromptTemplate)
    assert (ice.template, prompt.template) == ("I{answer}", "P{answer}")
    assert RunFolder(tmp_path).predictions("m", "d").exists()


@pytest.mark.parametrize("key", ["retriever", "inferencer"])
def test_a_gap_in_infer_cfg_names_dataset_and_key(tmp_path, key):
    task = infer_spec(tmp_path)
    del task.datasets[0]["infer_cfg"][key]
    with pytest.raises(ConfigError, match=f"dataset 'd': infer_cfg needs the key '{key}'"):
        OpenICLInferTask(task).run(report, ModelCache())


def test_a_model_is_built_once_for_all_its_datasets():
    models = ModelCache()
    config = {"type": "task_fakes.BuiltModel", "abbr": "a", "batch_size": 4}
    before = task_fakes.BuiltModel.built
    model = models.get(config)
    assert models.get({**config, "abbr": "b", "batch_size": 8}) is model
    assert task_fakes.BuiltModel.built == before + 1
    other = models.get({**config, "vocab_size": 3})
    assert other.vocab_size == 3
    assert models.get(config) is not model


def test_a_model_that_cannot_be_built_is_not_mistaken_for_another():
    models = ModelCache()
    models.get({"type": "ScriptedModel"})
    for _ in range(2):
        with pytest.raises(ConfigError):
            models.get({"type": "ScriptedModel", "no_such_argument": 1})
