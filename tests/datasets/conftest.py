import json

import pytest


@pytest.fixture
def write(tmp_path):
    """Write a file below the test's own folder and return its path as text."""

    def write(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


@pytest.fixture
def message(request):
    """Return the text of the error that a call raises."""

    def message(error, function, *args, **kwargs):
        with pytest.raises(error) as caught:
            function(*args, **kwargs)
        return str(caught.value)

    return message


@pytest.fixture
def predict(write):
    """Write a predictions file as a generation run leaves it."""

    def predict(system, answers, run="run/20260101_000000", prompts=None, **more):
        prompts = prompts or [f"Q: {q}" for q in ("Why?", "How?", "Who?")]
        rows = {
            str(i): {"origin_prompt": prompt, "prediction": answer, **more}
            for i, (answer, prompt) in enumerate(zip(answers, prompts, strict=False))
        }
        return write(f"{run}/predictions/{system}/qa.json", json.dumps(rows, ensure_ascii=False))

    return predict
