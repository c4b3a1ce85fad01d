"""THELMA through the whole harness: recorded systems, no reference, failures, kills, re-scoring."""

import json

import pytest

NAMES = ("green", "black", "white", "red", "old", "new", "cold", "hot", "iced", "sweet")


class Tea:
    """Two systems that answer ten questions about tea, and the configs to judge them."""

    def __init__(self, shop):
        self.shop = shop
        self.questions = [
            {"id": n, "query": f"What is {n} tea?", "sources": [f"{n.title()} tea is a drink."]}
            for n in NAMES
        ]
        self.logs = {
            "faithful": [{"id": n, "response": f"{n.title()} tea is a drink."} for n in NAMES],
            "careless": [
                {"id": n, "response": f"{n.title()} tea is a mineral.", "sources": [f"{n.title()}"]}
                for n in reversed(NAMES)
            ],
        }

    def write(self, name, rows):
        path = self.shop.folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return str(path)

    def dataset(self, judge=None, **options):
        evaluator = {
            "type": "ThelmaEvaluator",
            "judge_cfg": {"type": "ScriptedJudge", **(judge or {})},
            **options,
        }
        return {
            "type": "RAGDataset",
            "abbr": "tea",
            "path": self.write("questions", self.questions),
            "infer_cfg": {
                "prompt_template": {"type": "PromptTemplate", "template": "{query}"},
                "retriever": {"type": "ZeroRetriever"},
                "inferencer": {"type": "GenInferencer", "max_out_len": 1},
            },
            "eval_cfg": {"evaluator": evaluator},
        }

    def config(self, *systems, **evaluator):
        models = [
            {"type": "RecordedModel", "abbr": name, "path": self.write(name, self.logs[name])}
            for name in systems or self.logs
        ]
        config = self.shop.config(models, [self.dataset(**evaluator)])
        return {**config, "summarizer": {"type": "DefaultSummarizer"}}

    def results(self, system="faithful"):
        return json.loads(self.shop.file("results", system, "tea").read_text())

    def transcript(self, system="faithful"):
        path = self.shop.file("judging", system, "tea", ".transcript.jsonl")
        return [json.loads(line) for line in path.read_text().splitlines()]

    def evidence(self, system="faithful"):
        path = self.shop.file("judging", system, "tea", ".evidence.jsonl")
        return [json.loads(line) for line in path.read_text().splitlines()]

    def table(self):
        (path,) = (self.shop.root / "summary").glob("*.csv")
        return path.read_text()


@pytest.fixture
def tea(shop):
    return Tea(shop)


def test_each_system_has_its_column_and_its_own_sources(tea):
    code, output = tea.shop.run(tea.config())
    assert code == 0, output
    faithful, careless = tea.results("faithful"), tea.results("careless")
    assert (faithful["groundedness"], careless["groundedness"]) == (1.0, 0.0)
    assert faithful["coverage"]["groundedness"] == {"n_scored": 10, "n_total": 10, "null_rows": {}}
    assert [d["id"] for d in careless["details"]] == list(NAMES)
    assert "claims" not in careless["details"][0]
    assert [row["id"] for row in tea.evidence("careless")] == list(NAMES)
    (claim,) = tea.evidence("careless")[0]["claims"]
    assert claim["text"] == "Green tea is a mineral."
    assert claim["supported"]["verdict"] == "no"
    requests = {line["request"] for line in tea.transcript("careless")}
    assert set(claim["supported"]["calls"]) <= requests
    assert "metric,mode,faithful,careless" in tea.table()
    assert faithful["provenance"]["evaluator"]["judge_cfg"] == {"type": "ScriptedJudge"}


def test_the_report_compares_the_systems_and_is_written(tea):
    _, output = tea.shop.run(tea.config())
    (path,) = tea.shop.root.rglob("*thelma*tea*.md")
    text = path.read_text()
    assert "THELMA on tea" in output
    assert "## faithful against careless" in text
    assert "fewer than 20 common rows" in text
    assert "## Claims of careless that the sources do not support" in text


def test_evaluating_again_asks_the_judge_nothing_and_rebuilds_the_scores(tea):
    tea.shop.run(tea.config())
    before, lines = tea.results(), len(tea.transcript())
    tea.shop.file("results", "faithful", "tea").unlink()
    code, output = tea.shop.run(tea.config(), mode="eval", reuse="latest")
    assert code == 0, output
    after = tea.results()
    assert len(tea.transcript()) == lines
    assert {**after, "usage": None} == {**before, "usage": None}
    assert {origin for kind in after["usage"].values() for origin in kind} == {
        *("used_for", "transcript")
    }


def test_one_row_that_the_judge_never_answers_shows_in_counts_table_and_exit_code(tea):
    judge = {"faults": {"Red tea is a drink.": ["timeout"] * 99}}
    code, output = tea.shop.run(tea.config(judge=judge, metrics=["groundedness"]))
    assert code == 1
    assert "Traceback" not in output
    assert tea.results()["coverage"]["groundedness"]["n_scored"] == 9
    assert tea.results()["groundedness"] == 1.0
    assert "(9/10)" in output
    assert "on 1 of 10 rows without a usable answer (judge_timeout: 1)" in output
    code, output = tea.shop.run(tea.config(metrics=["groundedness"]), mode="eval", reuse="latest")
    assert code == 0, output
    assert tea.results()["coverage"]["groundedness"]["n_scored"] == 10


def test_a_judge_that_answers_nothing_readable_gives_a_table_without_numbers(tea):
    judge = {"faults": {"tea": ["prose"] * 9999}}
    code, output = tea.shop.run(tea.config("faithful", judge=judge, metrics=["groundedness"]))
    assert code == 1
    assert "Traceback" not in output
    assert "null (0/10: judge_error)" in output


def test_a_judge_that_cannot_be_used_ends_the_task_with_one_message(tea):
    config = tea.config("faithful", judge={"faults": {"tea": ["unusable"]}})
    code, output = tea.shop.run(config)
    assert code == 1
    assert "Traceback" not in output
    assert "scripted: the judge cannot be used" in output
    assert len(tea.transcript()) == 0


def test_a_judge_that_nobody_serves_is_one_message_and_a_failed_run(tea):
    # Port 9 of this machine: nothing listens there.
    judge = {"type": "EndpointJudge", "url": "http://127.0.0.1:9/v1", "model": "m"}
    code, output = tea.shop.run(tea.config("faithful", judge={**judge, "max_attempts": 1}))
    assert code == 1
    assert "Traceback" not in output
    assert "127.0.0.1:9" in output
    assert not tea.shop.file("results", "faithful", "tea").exists()


def test_a_killed_evaluation_goes_on_where_it_was_and_ends_the_same(tea):
    tea.shop.run(tea.config("faithful"))
    whole, calls = tea.results(), len(tea.transcript())
    tea.shop.out = tea.shop.folder / "killed"
    code, _ = tea.shop.run(tea.config("faithful", judge={"die_after": 30}), workers=True)
    assert code == 1
    kept = len(tea.transcript())
    assert 29 <= kept <= 30
    code, output = tea.shop.run(tea.config("faithful"), mode="eval", reuse="latest")
    assert code == 0, output
    result = tea.results()
    assert len(tea.transcript()) == calls
    assert {**result, "usage": None} == {**whole, "usage": None}
    asked = sum(kind["judge"]["calls"] for kind in result["usage"].values() if "judge" in kind)
    assert asked == calls - kept
