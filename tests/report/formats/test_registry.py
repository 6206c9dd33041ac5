"""Formats are found by their files, and imported when they are used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from omnicfg.findings.review import Report
from omnicfg.report import formats


def test_a_format_is_a_file() -> None:
    files = {path.stem for path in Path(formats.__path__[0]).glob("[a-z]*.py")}
    assert formats.format_names() == tuple(sorted(files))


@pytest.mark.parametrize("name", formats.format_names())
def test_every_format_renders_an_empty_report(name: str) -> None:
    assert isinstance(formats.renderer(name)(Report([], []), False, None), str)


def test_the_names_are_known_before_any_format_is_imported() -> None:
    code = (
        "import sys, omnicfg.commands.validate as command\n"
        "assert 'sarif' in command.FORMATS.__metadata__[0].help\n"
        "print([name for name in sys.modules if name.startswith('omnicfg.report.formats.') or name == 'tomllib'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
