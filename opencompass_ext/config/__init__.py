"""Config files: Python that builds lists and dicts, read into plain data and written back."""

from opencompass_ext.config.bases import packaged_configs
from opencompass_ext.config.dump import dump_config, format_config
from opencompass_ext.config.load import load_config

__all__ = [
    "dump_config",
    "format_config",
    "load_config",
    "packaged_configs",
]
