"""Measure which kind of answer PPLqa prefers with SmolLM2-135M, in English and Chinese.

python run.py examples/eval_pplqa_sanity.py

Put the model you intend to use as the evaluator into ``models``.
"""

from mmengine.config import read_base

with read_base():
    from opencompass_ext.configs.datasets.pplqa.pplqa_sanity import (
        pplqa_sanity_datasets as datasets,
    )
    from opencompass_ext.configs.models.embedded_smollm2_135m_instruct import models

work_dir = "outputs/pplqa_sanity"
