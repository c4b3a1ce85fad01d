"""The keys of a config that are not arguments of a class it names."""

from __future__ import annotations

from collections.abc import Mapping

from opencompass_ext.schema.signatures import Key, Keys, constructor_keys

# How a model is used in a run. What it *is* stands in the signature of its class.
MODEL = Keys(
    {
        "abbr": Key(str),
        "summarizer_abbr": Key(str),
        "batch_size": Key(int | None, minimum=1),
        "max_out_len": Key(int | None, minimum=1),
        "min_out_len": Key(int | None, minimum=0),
        "run_cfg": Key(Mapping),
    }
)
RUN_CFG = Keys({"num_gpus": Key(int, minimum=0), "num_procs": Key(int, minimum=1)})

INFER_CFG = Keys(
    {
        "prompt_template": Key(Mapping),
        "ice_template": Key(Mapping),
        "retriever": Key(Mapping, is_required=True),
        "inferencer": Key(Mapping, is_required=True),
    }
)
EVAL_CFG = Keys({"evaluator": Key(Mapping, is_required=True), "num_gpus": Key(int, minimum=0)})

STAGE = Keys({"partitioner": Key(Mapping), "runner": Key(Mapping)})
RUNNER = Keys({"task": Key(Mapping)})

# Types that a config may leave out.
DEFAULT_PARTITIONER = "NaivePartitioner"
DEFAULT_RUNNER = "LocalRunner"
DEFAULT_TASKS = {"infer": "OpenICLInferTask", "eval": "OpenICLEvalTask"}
DEFAULT_SUMMARIZER = "DefaultSummarizer"

# Arguments that the run fills in itself, so that a config cannot.
GIVEN_TO_RETRIEVER = ("dataset",)
GIVEN_TO_INFERENCER = ("model", "progress", "output_json_filepath", "output_json_filename")
GIVEN_TO_READER = ("dataset", "limit", "where", "group_column")
GIVEN_TO_TASK = ("spec",)


def dataset(needs_evaluator: bool) -> Keys:
    """Return the keys of a dataset beside those of its class."""
    return Keys(
        {
            "abbr": Key(str),
            "infer_cfg": Key(Mapping, is_required=True),
            "eval_cfg": Key(Mapping, is_required=needs_evaluator),
            "n": Key(int),
            "k": Key(int | list[int]),
        }
    )


def reader_cfg() -> Keys:
    """Return the keys of ``reader_cfg``: what a config can say to ``DatasetReader``."""
    from opencompass_ext.datasets import DatasetReader

    return constructor_keys(DatasetReader).without(*GIVEN_TO_READER)
