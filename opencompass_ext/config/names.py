"""Imports of a config file: the standard library is imported, everything else only named.

A config says ``type=HuggingFaceBaseModel``; to read it, nobody needs the package that holds the
class. So an import such as ``from opencompass.models import HuggingFaceBaseModel`` is turned into
the assignment of a placeholder that knows its dotted path, and the package may be absent.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from opencompass_ext.config.where import where
from opencompass_ext.errors import ConfigError

# The name under which a rewritten config finds the class NamedObject.
PLACEHOLDER_CLASS = "__named_object__"


@dataclass(frozen=True, slots=True)
class NamedObject:
    """Stands in a config for an object that is named there and imported by whoever uses it.

    Example:
        >>> str(NamedObject("torch").float16)
        'torch.float16'
    """

    path: str

    def __getattr__(self, name: str) -> NamedObject:
        if name.startswith("__"):  # copy, pickle and hasattr ask for protocols it does not have
            raise AttributeError(name)
        return NamedObject(f"{self.path}.{name}")

    def __str__(self) -> str:
        return self.path

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            f"{self.path} is only named here, not imported: a config can use it as a value of "
            "'type', but not call, index or inherit from it, nor loop over it. Lists and dicts of "
            "another config file are imported inside 'with read_base():'"
        )

    __call__ = __iter__ = __getitem__ = __add__ = __radd__ = __mro_entries__ = _refuse


def name_imports(tree: ast.Module, path: Path) -> set[str]:
    r"""Rewrite the imports of a config in place; return the names that its imports bind.

    Args:
        tree: A parsed config without its ``read_base`` blocks.
        path: Its file, for errors.

    Raises:
        ConfigError: An import that cannot be turned into a name.

    Example:
        >>> tree = ast.parse("import os, torch.nn\nfrom my_package import Model as M")
        >>> sorted(name_imports(tree, Path("c.py")))
        ['M', 'os', 'torch']
        >>> print(ast.unparse(tree))
        import os
        torch = __named_object__('torch')
        M = __named_object__('my_package.Model')
    """
    rewriter = _ImportRewriter(path)
    rewriter.visit(tree)
    ast.fix_missing_locations(tree)
    return rewriter.bound


class _ImportRewriter(ast.NodeTransformer):
    def __init__(self, path: Path) -> None:
        self.path = path
        self.bound: set[str] = set()

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        return [self._one_import(node, alias) for alias in node.names]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.stmt | list[ast.stmt]:
        names = [alias.name for alias in node.names]
        if node.level:
            self._fail(
                node,
                f"'from {'.' * node.level}{node.module or ''} import {', '.join(names)}' stands "
                "outside 'with read_base():'. Put it there if it names a config file; import a "
                "module of your own by its plain name ('from my_module import MyDataset'): modules "
                "beside the config and in the working folder are found",
            )
        module = node.module or ""
        if "*" in names:
            self._fail(node, f"'from {module} import *' works only inside 'with read_base():'")
        self.bound.update(alias.asname or alias.name for alias in node.names)
        if _is_standard_library(module):
            return node
        return [
            self._assign(node, alias.asname or alias.name, f"{module}.{alias.name}")
            for alias in node.names
        ]

    def visit_With(self, node: ast.With) -> ast.AST:
        if is_read_base(node):
            self._fail(node, "'with read_base():' must stand at the top level of the file")
        return self.generic_visit(node)

    def _one_import(self, node: ast.Import, alias: ast.alias) -> ast.stmt:
        top_package = alias.name.partition(".")[0]
        self.bound.add(alias.asname or top_package)
        if _is_standard_library(alias.name):
            return ast.copy_location(ast.Import(names=[alias]), node)
        if alias.asname:
            return self._assign(node, alias.asname, alias.name)
        return self._assign(node, top_package, top_package)

    def _assign(self, node: ast.stmt, name: str, dotted_path: str) -> ast.stmt:
        placeholder = ast.Call(
            func=ast.Name(PLACEHOLDER_CLASS, ast.Load()),
            args=[ast.Constant(dotted_path)],
            keywords=[],
        )
        assign = ast.Assign(targets=[ast.Name(name, ast.Store())], value=placeholder)
        return ast.copy_location(assign, node)

    def _fail(self, node: ast.stmt, message: str) -> NoReturn:
        raise ConfigError(f"{where(self.path, node.lineno)}: {message}")


def is_read_base(node: ast.AST) -> bool:
    """Return whether ``node`` is a ``with read_base():`` block."""
    if not isinstance(node, ast.With) or len(node.items) != 1:
        return False
    call = node.items[0].context_expr
    if not isinstance(call, ast.Call):
        return False
    return getattr(call.func, "id", getattr(call.func, "attr", None)) == "read_base"


def _is_standard_library(module: str) -> bool:
    return module.partition(".")[0] in sys.stdlib_module_names
