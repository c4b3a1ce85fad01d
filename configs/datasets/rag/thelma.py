"""THELMA's metrics on the 200 responses of begin_wow; the judge is a demo: set your own."""

from mmengine.config import read_base

with read_base():
    from .thelma_live import thelma_live_datasets as _live

# The prompt is for live models; a RecordedModel replays its log and ignores it.
thelma_datasets = [dict(_live[0], abbr="thelma-begin_wow", name="begin_wow")]
