"""``omnicfg completion``: the script that makes a shell complete."""

from __future__ import annotations

from typing import Annotated, Final

from omnicfg.errors import UsageError
from omnicfg.near import did_you_mean
from omnicfg.parser import Argument

HELP = "Print the completion script of a shell: bash, zsh or fish."

# Where omnicfg has no words to offer, each script leaves the field to the shell's own completion of file names.
_SCRIPTS: Final = {
    "bash": """\
_omnicfg() {
    local IFS=$'\\n'
    COMPREPLY=($(_OMNICFG_COMPLETE=1 omnicfg "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _omnicfg omnicfg
""",
    "zsh": """\
#compdef omnicfg
_omnicfg() {
    local -a found
    found=("${(@f)$(_OMNICFG_COMPLETE=1 omnicfg "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then
        compadd -- "${found[@]}"
    else
        _files
    fi
}
compdef _omnicfg omnicfg
""",
    "fish": """\
function __omnicfg_complete
    set -l typed (commandline -opc)
    env _OMNICFG_COMPLETE=1 omnicfg $typed[2..-1] (commandline -ct) 2>/dev/null
end
complete -c omnicfg -a '(__omnicfg_complete)'
""",
}


def run(
    shell: Annotated[
        str, Argument("SHELL", help="For bash: `source <(omnicfg completion bash)`.", words=lambda: _SCRIPTS)
    ],
) -> None:
    """Print the script. Raises :class:`UsageError` for a shell that there is none for."""
    if shell not in _SCRIPTS:
        hint = did_you_mean(shell, _SCRIPTS) or f"Shells: {', '.join(_SCRIPTS)}."
        raise UsageError(f"no completion for `{shell}`", hint)
    print(_SCRIPTS[shell], end="")
