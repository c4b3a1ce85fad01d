"""Datasets whose size shows only when they are built."""

import json
import os
from pathlib import Path

from opencompass_ext.datasets import InferencePPLDataset


class Counted:
    def __init__(self, path, extra=None):
        if extra == "fail":
            raise ValueError("on purpose")
        if extra == "die":
            os._exit(3)
        print("what a library has to say")
        rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
        self.test = [{"text": row["text"], "n": 1} for row in rows]


class Filtered(InferencePPLDataset):
    @staticmethod
    def load(path):
        return InferencePPLDataset.load(path).filter(lambda row: int(row["text"][4:]) % 2)
