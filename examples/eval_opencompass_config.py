"""Measure the mean NLL of final answers with a config written for OpenCompass.

All names are OpenCompass's; OpenCompass itself need not be installed.
"""

from mmengine.config import read_base
from opencompass.models import HuggingFaceBaseModel
from opencompass.partitioners import NaivePartitioner
from opencompass.runners import LocalRunner
from opencompass.tasks import OpenICLEvalTask, OpenICLInferTask

with read_base():
    from opencompass.configs.datasets.inference_ppl.inference_ppl import inference_ppl_datasets

datasets = [*inference_ppl_datasets]
for _dataset in datasets:
    _dataset["reader_cfg"]["test_range"] = "[0:10]"

models = [
    dict(
        type=HuggingFaceBaseModel,
        abbr="smollm2-135m-instruct",
        path="embedded:smollm2-135m-instruct",
        max_seq_len=8192,
        batch_size=8,
        run_cfg=dict(num_gpus=0, num_procs=1),
    )
]

infer = dict(
    partitioner=dict(type=NaivePartitioner),
    runner=dict(type=LocalRunner, max_num_workers=1, task=dict(type=OpenICLInferTask)),
)
eval = dict(
    partitioner=dict(type=NaivePartitioner),
    runner=dict(type=LocalRunner, max_num_workers=1, task=dict(type=OpenICLEvalTask)),
)

work_dir = "outputs/opencompass_config"
