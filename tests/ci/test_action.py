"""The GitHub Action: its scripts, run the way a runner does, with its inputs and outputs."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.ci.conftest import BROKEN, Script, documented, parsed
from tests.docs.examples import ROOT
from tests.repositories import Repo

pytestmark = pytest.mark.slow

ACTION = parsed((ROOT / "action.yml").read_text())


class Ran(NamedTuple):
    """What the steps of the action left behind."""

    outputs: dict[str, str]
    printed: str
    failed: str | None


Run = Callable[..., Ran]
# GitHub's command: the comments are those of `gh.comments`, and what it is asked to write stands in `gh.called`.
GH = """\
#!/bin/sh
if [ "$2" = --paginate ]; then cat "$0.comments" | jq --raw-output "$5"; else echo "$@" > "$0.called"; fi
"""


@pytest.fixture(scope="session")
def source(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The action as a runner checks it out, into a folder of its choice."""
    return Path(shutil.copytree(source, tmp_path_factory.mktemp("runner of ours") / "omnicfg"))


@pytest.fixture(scope="session")
def runner_temp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runner's scratch directory; the first action that runs installs into it."""
    return tmp_path_factory.mktemp("runner")


@pytest.fixture
def act(script: Script, source: Path, runner_temp: Path, tmp_path: Path) -> Run:
    """Runs the action's own steps with inputs; those of other actions are left out."""

    def run(**inputs: str) -> Ran:
        known = {name: str(given["default"]) for name, given in ACTION["inputs"].items()}
        values = {f"inputs.{name.replace('_', '-')}": value for name, value in {**known, **inputs}.items()}
        values["github.action_path"] = str(source)
        outputs: dict[str, str] = {}
        printed = ""
        for step in ACTION["runs"]["steps"]:
            if "run" not in step or (step["name"].startswith("Install") and (runner_temp / "omnicfg").exists()):
                continue
            outcome = tmp_path / "output"
            outcome.write_text("")
            environment = {name: filled(str(text), values) for name, text in step["env"].items()}
            base = {"RUNNER_TEMP": str(runner_temp), "GITHUB_OUTPUT": str(outcome), "PATH": path_with_python()}
            done = script(step["run"], {**base, **environment})
            printed += done.stdout + done.stderr
            outputs |= dict(line.split("=", 1) for line in outcome.read_text().splitlines())
            values |= {f"steps.{step.get('id')}.outputs.{name}": value for name, value in outputs.items()}
            if done.returncode:
                return Ran(outputs, printed, step["name"])
        return Ran(outputs, printed, None)

    return run


def filled(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda found: values[found[1]], text)


def path_with_python() -> str:
    """What actions/setup-python does: `python` is the right one."""
    return f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"


def sarif(repo: Repo) -> Any:
    return json.loads((repo.root / "omnicfg.sarif").read_text())["runs"][0]["results"]


def test_clean_profiles_pass_and_leave_an_empty_report(act: Run, repo: Repo) -> None:
    ran = act(paths="profiles", args="--platform cuda")
    assert (ran.failed, ran.outputs["exit-code"]) == (None, "0"), ran.printed
    assert [each for each in sarif(repo) if each["level"] == "error"] == []


def test_findings_are_marked_uploaded_and_fail_in_this_order(act: Run, repo: Repo) -> None:
    repo.write(profiles__base=BROKEN)
    ran = act(paths="profiles/base.yaml\nprofiles/derived.yaml")
    assert (ran.failed, ran.outputs["exit-code"]) == ("Fail where there are findings", "1")
    assert "::error file=profiles/base.yaml,line=3," in ran.printed
    assert "OC101" in {each["ruleId"] for each in sarif(repo)}
    names = [step.get("name") for step in ACTION["runs"]["steps"]]
    assert names.index("Check the profiles") < names.index("Upload the findings") < names.index(ran.failed)


def test_what_cannot_be_checked_fails_too(act: Run) -> None:
    ran = act(paths="nosuch.yaml")
    assert (ran.failed, ran.outputs["exit-code"]) == ("Fail where there are findings", "2")


def test_inputs_are_words_never_code(act: Run, repo: Repo) -> None:
    ran = act(paths="$(touch${IFS}hacked) profiles; touch hacked", args="`touch hacked`")
    assert ran.outputs["exit-code"] == "2"
    assert not (repo.root / "hacked").exists()


def test_the_report_of_an_earlier_step_is_not_uploaded_again(act: Run, repo: Repo) -> None:
    assert act(paths="profiles").outputs["has-report"] == "true"
    assert (repo.root / "omnicfg.sarif").exists()
    assert "has-report" not in act(paths="nosuch.yaml").outputs
    ran = act(paths="profiles", sarif_file=str(repo.root.parent / "elsewhere.sarif"))
    assert (ran.outputs["has-report"], (repo.root.parent / "elsewhere.sarif").exists()) == ("true", True)


def test_what_another_repository_sends_is_not_uploaded_and_a_fork_s_own_is() -> None:
    (upload,) = [step for step in ACTION["runs"]["steps"] if "upload-sarif@" in step.get("uses", "")]
    assert "pull_request.head.repo.full_name == github.repository" in upload["if"]
    assert "steps.validate.outputs.has-report == 'true'" in upload["if"]


@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq, which reads what gh answers")
def test_the_documented_comment(script: Script, act: Run, repo: Repo, runner_temp: Path, tmp_path: Path) -> None:
    act(paths="profiles")
    step = parsed(documented(".github/workflows/omnicfg.yml"))["jobs"]["profiles"]["steps"][2]
    tool = tmp_path / "bin" / "gh"
    tool.parent.mkdir()
    tool.write_text(GH)
    tool.chmod(0o755)
    called, there = tool.with_suffix(".called"), tool.with_suffix(".comments")
    there.write_text("[]")
    environment = {
        "RUNNER_TEMP": str(runner_temp),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "NUMBER": "7",
        "GITHUB_REPOSITORY": "team/models",
        "PATH": f"{tool.parent}:/usr/bin:/bin",
    }
    done = script(step["run"], environment)
    assert done.returncode == 0, done.stderr
    assert "| `profiles/derived.yaml` from `profiles/base.yaml` |" in (tmp_path / "summary.md").read_text()
    new = "pr comment 7 --body-file omnicfg-diff.md\n"
    assert called.read_text() == new
    report = (repo.root / "omnicfg-diff.md").read_text()
    bot, person = {"type": "Bot"}, {"type": "User"}
    theirs = [{"id": 1, "user": person, "body": report}, {"id": 2, "user": bot, "body": "Coverage: 3 %"}]
    there.write_text(json.dumps(theirs))
    assert script(step["run"], environment).returncode == 0
    assert called.read_text() == new
    there.write_text(json.dumps([{"id": 3, "user": bot, "body": report}, *theirs]))
    assert script(step["run"], environment).returncode == 0
    rewritten = "api --silent --method PATCH repos/team/models/issues/comments/3 --field body=@omnicfg-diff.md\n"
    assert called.read_text() == rewritten
    tool.write_text("#!/bin/sh\nexit 1\n")  # the token of a fork
    assert "::notice::" in script(step["run"], environment).stdout
    repo.git("commit", "-q", "--allow-empty", "-m", "nothing")
    assert script(step["run"], environment).returncode == 0
    repo.git("checkout", "-q", "--orphan", "alone")
    repo.git("commit", "-q", "-m", "no parent")
    assert script(step["run"], environment).returncode != 0
