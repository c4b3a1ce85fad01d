"""Have two models answer 16 questions, for eval_pplqa_rank_generated.py to rank.

python run.py examples/eval_pplqa_generate.py -m infer
python run.py examples/eval_pplqa_rank_generated.py

The second command reads the answers from the latest run of the first.
"""

from mmengine.config import read_base

from opencompass_ext.datasets import JsonlDataset
from opencompass_ext.inferencers import GenInferencer
from opencompass_ext.prompting import PromptTemplate, ZeroRetriever

with read_base():
    from opencompass_ext.configs.models.embedded_gemma3_270m import models as _gemma
    from opencompass_ext.configs.models.embedded_smollm2_135m_instruct_chat import models as _smollm

models = [*_smollm, *_gemma]
for _model in _gemma:
    # A base model continues the text, and would go on to write the next question itself.
    _model.update(max_out_len=256, stop_words=["\nQuestion:"])

datasets = [
    dict(
        abbr="mtbench-questions",
        type=JsonlDataset,
        path="data/pplqa/mtbench_questions.jsonl",
        reader_cfg=dict(input_columns=["question"], output_column=None),
        infer_cfg=dict(
            prompt_template=dict(type=PromptTemplate, template="Question: {question}\nAnswer:"),
            retriever=dict(type=ZeroRetriever),
            inferencer=dict(type=GenInferencer),
        ),
    )
]

work_dir = "outputs/pplqa_generate"
