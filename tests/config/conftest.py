import textwrap

import pytest


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write files below a folder that is also the working folder; return the path of one."""
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, text: str):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return write_file
