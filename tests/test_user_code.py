import os
import sys

import pytest

from opencompass_ext.errors import ConfigError
from opencompass_ext.user_code import (
    FOLDERS_VARIABLE,
    allow_imports_from,
    import_class,
    user_folders,
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDERS_VARIABLE, "")
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_class_in_a_folder_of_the_user_is_found(folder):
    (folder / "user_mod_a.py").write_text("class Mine:\n    pass\n")
    allow_imports_from([folder])
    assert import_class("user_mod_a.Mine", "dataset").__name__ == "Mine"


def test_folders_are_handed_on_in_the_environment_once_each(folder):
    allow_imports_from([folder, folder / "b"])
    allow_imports_from([folder])
    assert user_folders() == [str(folder), str(folder / "b")]
    assert os.environ[FOLDERS_VARIABLE] == os.pathsep.join(user_folders())


def test_a_file_of_the_user_hides_no_installed_package(folder):
    (folder / "filelock.py").write_text("class FileLock:\n    hidden = True\n")
    allow_imports_from([folder])
    assert not hasattr(import_class("filelock.FileLock", "dataset"), "hidden")


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("class Mine: pass", "user_mod_b.Mien", r"user_mod_b\.py has no class 'Mien': did you mea"),
        ("x = 1", "user_mod_c.Mine", "has no class 'Mine': it defines no class"),
        ("def mine(): pass", "user_mod_d.mine", "is no class but <function mine"),
        ("1 / 0", "user_mod_e.Mine", r"cannot import .*'user_mod_e\.Mine': ZeroDivisionError"),
        ("import nowhere_to_be_found", "user_mod_f.Mine", "No module named 'nowhere_to_be_found'"),
        ("def", "user_mod_g.Mine", "SyntaxError"),
    ],
)
def test_what_goes_wrong_is_told(folder, text, name, message):
    (folder / f"{name.partition('.')[0]}.py").write_text(text)
    allow_imports_from([folder])
    with pytest.raises(ConfigError, match=message):
        import_class(name, "dataset")


def test_a_missing_module_says_where_was_looked(folder):
    allow_imports_from([folder])
    with pytest.raises(ConfigError, match=rf"No module named 'user_mod_h'.*{folder}"):
        import_class("user_mod_h.Mine", "dataset")
