"""Measure PPLqa on MT-Bench with the paper's evaluator, Mistral-7B-Instruct-v0.2, on a GPU.

python run.py examples/eval_pplqa_mistral.py
"""

from mmengine.config import read_base

with read_base():
    from opencompass_ext.configs.datasets.pplqa.pplqa_mtbench import (
        pplqa_mtbench_datasets as _mtbench,
    )
    from opencompass_ext.configs.datasets.pplqa.pplqa_sanity import (
        pplqa_sanity_datasets as _sanity,
    )
    from opencompass_ext.configs.models.hf_mistral_7b_instruct_v0_2 import models

# The sanity battery shows which kinds of answers this evaluator can tell apart at all.
datasets = [*_mtbench, *_sanity]

work_dir = "outputs/pplqa_mistral"
