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
