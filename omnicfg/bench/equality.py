"""Whether an arm answers as another does: equal texts, equal hidden states, equal codes; what differs is shown.

The same prompts go to both arms one at a time, greedily, each twice; so nothing else is in the batch, and the second
time a prefix cache knows the whole prompt.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from omnicfg.bench.answers import Answer, Question, Rows, common, in_speech, in_text
from omnicfg.bench.arms import shown
from omnicfg.bench.progress import Progress
from omnicfg.bench.server import started
from omnicfg.bench.setting import HOST, Subject
from omnicfg.serve.engines.bundled import rows_socket
from omnicfg.serve.machine import this_machine
from omnicfg.serve.preflight import free_port
from omnicfg.serve.speech import silent_reason, speaks
from omnicfg.serve.supervise import Address

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VERSION: Final = 1
KIND: Final = "equality"
TOLERANCE: Final = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 2**-6}
"""How far rows may be apart, as a share of the largest value: a few units in the last place that a dtype has, since a
cached prefix is computed in another shape. ``omnicfg.engine.verify`` measures the same against transformers."""
BATCH_INVARIANT: Final = {"VLLM_BATCH_INVARIANT": "1"}
SEED: Final = 7


@dataclass
class Verdict:
    """One way of answering (``text`` or ``speech``), over all questions."""

    answer: str
    asked: int = 0
    hit_tokens: int = 0
    rows: int = 0
    rows_apart: float = 0.0
    largest: float = 0.0
    identical: bool = True
    codes: int = 0
    differences: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; ``rows_apart`` is the worst distance of two values, ``largest`` the largest value."""
        return {
            "answer": self.answer,
            "questions": self.asked,
            "hit_tokens": self.hit_tokens,
            "rows": self.rows,
            "rows_apart": self.rows_apart,
            "largest": self.largest,
            "rows_identical": self.identical if self.rows else None,
            "codes": self.codes,
            "differences": self.differences,
        }


@dataclass
class Equality:
    """``base`` and ``other`` are asked ``questions``; ``scratch`` takes the rows of the first meanwhile."""

    base: Subject
    other: Subject
    questions: Sequence[Question]
    scratch: Path
    logs: Path
    progress: Progress
    batch_invariant: bool = False

    def run(self) -> list[Verdict]:
        """One verdict for answers in text, one for speech where both arms speak. Raises :class:`ServeError`."""
        verdicts = [self._compared("text")]
        if all(_speaks(subject) for subject in (self.base, self.other)):
            verdicts.append(self._compared("speech"))
        return verdicts

    def _compared(self, way: str) -> Verdict:
        verdict = Verdict(way)
        before: dict[str, Answer] = {}
        with closing(self._answers(self.base, way)) as answers:
            for question, answer, _ in answers:
                before[question.name] = self._laid_aside(question, answer)
        with closing(self._answers(self.other, way)) as answers:
            for question, answer, dtype in answers:
                base = self._taken_up(question, before.pop(question.name))
                judge(verdict, question, base, answer, TOLERANCE.get(dtype, 0.0))
        hits = f"{verdict.hit_tokens:,} prompt tokens were hits"
        self.progress.line(f"answers in {way}: {len(verdict.differences) or 'no'} differences, {hits}")
        return verdict

    def _answers(self, subject: Subject, way: str) -> Generator[tuple[Question, Answer, str], None, None]:
        """What the arm answers, with the dtype of its rows."""
        machine = this_machine()
        request = subject.request_on(free_port(HOST))
        launch = subject.launch(request, machine, way == "speech")
        if self.batch_invariant:
            launch = replace(launch, env={**launch.env, **BATCH_INVARIANT})
        log = self.logs / f"equality-{way}-{subject.name}.log"
        told = f"{subject.name}, answers in {way}"
        socket = rows_socket(request) if subject.engine == "bundled" and way == "text" else None
        seed = None if machine.serves_on_cpu else SEED
        with (
            started(launch, Address.of(HOST, request.port), log, self._waiting(told)) as server,
            _consumer(socket) as rows,
        ):
            for number, question in enumerate(self.questions, 1):
                self.progress.status(f"{told}: {number}/{len(self.questions)}")
                answer = in_speech(server, question, seed) if way == "speech" else in_text(server, question, rows)
                yield question, answer, rows.layout.dtype if rows else ""
        self.progress.line(f"{told}: {len(self.questions)} of {len(self.questions)}")

    def _waiting(self, told: str) -> Any:
        return lambda seconds: self.progress.status(f"{told}: starting the server, {seconds:.0f} s")

    def _laid_aside(self, question: Question, answer: Answer) -> Answer:
        """Rows of long prompts are too many to be kept in memory."""
        if answer.rows is None:
            return answer
        import numpy as np

        np.save(self._file(question), answer.rows)
        return replace(answer, rows=answer.rows[:0])

    def _taken_up(self, question: Question, answer: Answer) -> Answer:
        if answer.rows is None:
            return answer
        import numpy as np

        path = self._file(question)
        rows: NDArray[np.float32] = np.load(path)
        path.unlink()
        return replace(answer, rows=rows)

    def _file(self, question: Question) -> Path:
        return self.scratch / f"{question.name}.npy"


def _speaks(subject: Subject) -> bool:
    return subject.engine == "bundled" and speaks(subject.request.plan) and silent_reason(subject.request) is None


def _consumer(socket: Path | None) -> AbstractContextManager[Rows | None]:
    return nullcontext() if socket is None else Rows(socket)


def judge(verdict: Verdict, question: Question, base: Answer, other: Answer, tolerance: float) -> None:
    """Adds a pair of answers to a verdict. ``tolerance`` is a share of the largest value of the rows."""
    verdict.asked += 1
    verdict.hit_tokens += other.cached
    shared = common(base.tokens, other.tokens)
    if (base.tokens, base.text) != (other.tokens, other.text):
        verdict.differences.append(
            {**_where(question, "text"), "token": shared, "base": _shown(base, shared), "other": _shown(other, shared)}
        )
    for name, answer in (("base", base), ("other", other)):
        if not answer.complete:
            verdict.differences.append({**_where(question, "rows"), name: "incomplete"})
    if base.rows is not None and other.rows is not None:
        # The last token that both read is the last that they have in common.
        _judge_rows(verdict, question, base.rows, other.rows, len(question.prompt.tokens) + shared, tolerance)
    if base.codes is not None or other.codes is not None:
        ours, theirs = base.codes or [], other.codes or []
        verdict.codes += len(ours)
        if ours != theirs:
            frame = next((n for n, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
            place = min(len(ours), len(theirs)) if frame is None else frame
            verdict.differences.append(
                {
                    **_where(question, "codes"),
                    "frame": place,
                    "base": ours[place : place + 1],
                    "other": theirs[place : place + 1],
                }
            )


def _judge_rows(
    verdict: Verdict,
    question: Question,
    base: NDArray[np.float32],
    other: NDArray[np.float32],
    shared: int,
    tolerance: float,
) -> None:
    import numpy as np

    count = min(len(base), len(other), shared)
    expected = min(shared, len(question.prompt.tokens) + question.prompt.output_tokens - 1)
    if count < expected:
        counts = {"base": len(base), "other": len(other)}
        verdict.differences.append({**_where(question, "rows"), "expected": expected, **counts})
    if not count:
        return
    apart = np.abs(base[:count] - other[:count])
    largest = float(np.abs(base[:count]).max())
    worst = float(apart.max())
    verdict.rows += count
    verdict.identical = verdict.identical and worst == 0
    verdict.rows_apart, verdict.largest = max(verdict.rows_apart, worst), max(verdict.largest, largest)
    if not worst <= tolerance * largest:
        token, name, channel = (int(place) for place in np.unravel_index(int(apart.argmax()), apart.shape))
        values = {"base": float(base[token, name, channel]), "other": float(other[token, name, channel])}
        verdict.differences.append(
            {**_where(question, "rows"), "token": token, "row": name, "channel": channel, "apart": worst, **values}
        )


def _where(question: Question, what: str) -> dict[str, Any]:
    return {"what": what, "load": question.load.name, "prompt": question.index, "turn": question.turn}


def _shown(answer: Answer, place: int) -> dict[str, Any]:
    return {"tokens": answer.tokens[place : place + 8], "text": answer.text[-80:]}


def report_of(
    subjects: Sequence[Subject], verdicts: Sequence[Verdict], machine: Mapping[str, Any], command: str
) -> dict[str, Any]:
    """The outcome as data."""
    plan = subjects[0].request.plan
    return {
        "version": VERSION,
        "kind": KIND,
        "command": command,
        "profile": Path(plan.profile).name,
        "model": subjects[0].request.model_name,
        "arms": {one.name: [shown(setting) for setting in one.arm.settings] for one in subjects},
        "machine": dict(machine),
        "verdicts": [verdict.to_dict() for verdict in verdicts],
        "equal": is_equal(verdicts),
    }


def is_equal(verdicts: Sequence[Verdict]) -> bool:
    """Whether nothing differs, and something could have: without a hit nothing is shown."""
    return all(not verdict.differences for verdict in verdicts) and any(verdict.hit_tokens for verdict in verdicts)


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """The outcome for people."""
    base, other = report["arms"]
    for verdict in report["verdicts"]:
        yield (
            f"{verdict['answer']}: {verdict['questions']} answers of {other} against {base}, "
            f"{verdict['hit_tokens']:,} prompt tokens of {other} were hits"
        )
        if verdict["rows"]:
            exact = "identical" if verdict["rows_identical"] else f"at most {verdict['rows_apart']:.3g} apart"
            yield f"  hidden states of {verdict['rows']:,} tokens {exact}, the largest value {verdict['largest']:.3g}"
        if verdict["codes"]:
            yield f"  {verdict['codes']:,} frames of codes"
        if not verdict["differences"]:
            yield "  nothing differs" if verdict["hit_tokens"] else "  nothing differs, and nothing was a hit"
        for one in verdict["differences"]:
            where = f"{one['load']}, prompt {one['prompt']}, sent the {('1st', '2nd')[one['turn']]} time"
            told = ", ".join(f"{name} {value}" for name, value in one.items() if name not in _PLACES)
            yield f"  {one['what']} of {where}: {told}"
    yield "equal" if report["equal"] else "NOT shown to be equal"


_PLACES: Final = frozenset({"what", "load", "prompt", "turn"})
