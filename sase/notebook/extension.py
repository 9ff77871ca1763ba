"""What `%load_ext sase` does."""

from __future__ import annotations

from IPython.core.interactiveshell import InteractiveShell

from sase.notebook.completion import IDENTIFIER, matcher
from sase.notebook.magic import SaseMagics


def load(shell: InteractiveShell) -> None:
    shell.register_magics(SaseMagics)
    matchers = shell.Completer.custom_matchers
    if not any(getattr(known, "matcher_identifier", None) == IDENTIFIER for known in matchers):
        matchers.append(matcher(shell))
