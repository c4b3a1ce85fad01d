"""Judge recorded answers with THELMA, and measure their source support.

python run.py examples/eval_thelma.py

Runs anywhere, without a service. The judge is SmolLM2-135M: it shows how the pieces fit together,
and is far too small to be trusted (docs/judges.md). Source support does not depend on it.
"""

from mmengine.config import read_base

from opencompass_ext.models import RecordedModel

with read_base():
    from opencompass_ext.configs.datasets.rag.source_support import source_support_datasets
    from opencompass_ext.configs.datasets.rag.thelma import thelma_datasets
    from opencompass_ext.configs.models.embedded_smollm2_135m_instruct import models as _scoring

# The system under test, replayed from its log: the human-labelled responses of begin_wow. Your own
# log has rows {"id", "response"}, with "sources" if the system retrieved its own.
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
    # About a minute on two CPU cores; without a range all 200 rows are judged.
    _dataset["reader_cfg"]["test_range"] = "[:4]"

models = [_recorded, *_scoring]

# The judge reads the system's answers; for source support a language model scores them.
model_dataset_combinations = [
    dict(models=[_recorded], datasets=_judged),
    dict(models=_scoring, datasets=_measured),
]

work_dir = "outputs/thelma"
