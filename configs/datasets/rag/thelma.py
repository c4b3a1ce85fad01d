"""THELMA's seven metrics of the 200 answers of begin_wow; the judge is a demo: set a better one."""

from mmengine.config import read_base

with read_base():
    from .thelma_live import thelma_live_datasets as _live

# Its prompt is for live models; a RecordedModel replays its log and reads none.
thelma_datasets = [dict(_live[0], abbr="thelma-begin_wow", name="begin_wow")]
