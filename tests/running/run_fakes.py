"""Classes that configs of these tests name."""

import json
from pathlib import Path

from opencompass_ext.datasets.row_files import RowCount
from opencompass_ext.errors import DataError
from opencompass_ext.evaluators import BaseEvaluator
from opencompass_ext.models import ScriptedModel


class Texts:
    """Rows of a JSON Lines file, without the second that loading a data library takes."""

    def __init__(self, path, limit=None):
        self.test = self.load(path)[:limit]

    @staticmethod
    def load(path):
        if not Path(path).exists():
            raise DataError(f"no data file {path}")
        return [json.loads(line) for line in Path(path).read_text().splitlines()]

    @staticmethod
    def count(path):
        return RowCount(len(Texts.load(path)), Path(path).stat().st_size)


class LoggedModel(ScriptedModel):
    """Notes the number in each text it scores, as in "row 3 of a", in a file."""

    def __init__(self, scored_log, **kwargs):
        super().__init__(**kwargs)
        self.scored_log = scored_log

    def score_spans(self, texts, **kwargs):
        for batch in super().score_spans(texts, **kwargs):
            with open(self.scored_log, "a") as file:
                file.writelines(texts[i].text.split()[1] + "\n" for i in batch)
            yield batch


class MeanEvaluator(BaseEvaluator):
    def score(self, ppl, token_len):
        return {
            "average_ppl": sum(ppl) / sum(token_len),
            "details": [{"ppl": p} for p in ppl],
        }


class TestSetEvaluator(BaseEvaluator):
    """Asks for the rows of the data set."""

    def score(self, predictions=None, test_set=None):
        return {"rows": len(test_set)}


class RecordingSummarizer:
    """Writes what it was called with, as JSON."""

    def __init__(self, dataset_abbrs=None, summary_groups=None):
        pass

    def summarize(self, run_folder, models, datasets, failures):
        text = json.dumps(
            {
                "models": [m["abbr"] for m in models],
                "datasets": [d["abbr"] for d in datasets],
                "failures": [[f.task.name, f.error, f.log] for f in failures],
            }
        )
        path = run_folder.summary("test", "json")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        print(f"SUMMARY {text}")
        return text


class FailingSummarizer(RecordingSummarizer):
    def summarize(self, run_folder, models, datasets, failures):
        raise DataError("no table today")
