"""Mean NLL of labelled spans, Chinese only: CMATH and GAOKAO."""

from mmengine.config import read_base

with read_base():
    from .inference_ppl import inference_ppl_datasets as _all

inference_ppl_zh_datasets = [d for d in _all if d["name"].startswith("zh_")]
