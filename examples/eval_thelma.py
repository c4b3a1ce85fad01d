"""Judges recorded answers with THELMA, and measures their source support beside it.

python run.py examples/eval_thelma.py

Runs anywhere, without a service: the judge is SmolLM2-135M. It shows how all parts work together
and is far too small to be trusted (docs/thelma.md says how it scores); source support is not.
"""

from mmengine.config import read_base

from opencompass_ext.models import RecordedModel

with read_base():
    from opencompass_ext.configs.datasets.rag.source_support import source_support_datasets
    from opencompass_ext.configs.datasets.rag.thelma import thelma_datasets
    from opencompass_ext.configs.models.embedded_smollm2_135m_instruct import models as _scoring

# The system under test, by its log: the responses that people judged in begin_wow. A log of your
# own has rows of {"id", "response"}, and "sources" where the system retrieved its own.
_recorded = dict(
    type=RecordedModel,
    abbr="begin-systems",
    path="data/rag/begin_wow.jsonl",
    run_cfg=dict(num_gpus=0),
)

_judged = [*thelma_datasets]
_measured = [d for d in source_support_datasets if d["name"] == "begin_wow"]
datasets = [*_judged, *_measured]
for _dataset in datasets:
    # A few minutes on two CPU cores; without a range all 200 rows are judged.
    _dataset["reader_cfg"]["test_range"] = "[:4]"

models = [_recorded, *_scoring]

# The judge looks at the system's answers; a language model scores them again.
model_dataset_combinations = [
    dict(models=[_recorded], datasets=_judged),
    dict(models=_scoring, datasets=_measured),
]

work_dir = "outputs/thelma"
