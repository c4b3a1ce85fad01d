"""Measure how well SmolLM2-135M predicts worked solutions: GSM8K in English, GAOKAO in Chinese.

python run.py examples/eval_inference_ppl.py
"""

from mmengine.config import read_base

with read_base():
    from opencompass_ext.configs.datasets.inference_ppl.inference_ppl import inference_ppl_datasets
    from opencompass_ext.configs.models.embedded_smollm2_135m_instruct import models

# About 27,000 tokens: a minute on two CPU cores. Without a range all rows are read.
_ranges = {"en_gsm8k_reasoning": "[::3]", "zh_gaokao_reasoning": "[::5]"}

datasets = [d for d in inference_ppl_datasets if d["name"] in _ranges]
for _dataset in datasets:
    _dataset["reader_cfg"]["test_range"] = _ranges[_dataset["name"]]

work_dir = "outputs/inference_ppl"
