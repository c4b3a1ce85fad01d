"""Rank six systems on MT-Bench by PPLqa with SmolLM2-135M, and compare with human preferences.

python run.py examples/eval_pplqa.py

It reads 170,000 tokens in float32: about five minutes on two CPU cores.
"""

from mmengine.config import read_base

with read_base():
    from opencompass_ext.configs.datasets.pplqa.pplqa_mtbench import (
        pplqa_mtbench_datasets as datasets,
    )
    from opencompass_ext.configs.models.embedded_smollm2_135m_instruct import models

work_dir = "outputs/pplqa"
