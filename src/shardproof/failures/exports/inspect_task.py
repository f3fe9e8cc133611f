"""An Inspect task: a model is shown a case and asked for a repair, which is judged as `map try` judges it.

Needs shardproof[inspect]; Inspect is imported only when a task is made.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from shardproof.errors import InvalidValueError
from shardproof.failures.candidates import judge_candidate
from shardproof.failures.folders import File
from shardproof.failures.mechanism import load_mechanism, members_folder
from shardproof.failures.plan import Plan
from shardproof.failures.selection import choose, plans
from shardproof.records.map import CaseContent

PROMPT = """{text}

`{solve}` has these arguments:
{arguments}

This program breaks the contract:

```python
{failing}```

This fix was tried and does not mend it:

```python
{unsuccessful}```

{approach}

Write `{solve}` so that it meets the contract, with Python's standard library only. It is judged on these checks and on
others of the same contract. Answer with one Python code block.

{checks}
"""
TASK = '''"""The Failure Map as an Inspect task: inspect eval failure_map.py --model MODEL"""

from inspect_ai import task

from shardproof.failures.exports.inspect_task import repair_task

CASES = {cases}


@task
def failure_map(held_back: bool = False):
    return repair_task(CASES, held_back=held_back)
'''


def inspect_files(plans: Sequence[Plan]) -> Iterator[File]:
    """failure_map.py, a task file over the ids of these cases."""
    ids = "".join(f"    {json.dumps(plan.content.id)},\n" for plan in plans)
    yield "failure_map.py", TASK.format(cases=f"[\n{ids}]").encode("ascii")


def prompt(case: CaseContent) -> str:
    """What a model is shown of a case: contract, both wrong programs, visible checks."""
    programs = {one.role: one.source for one in case.programs}
    checks = [f"- {one.label}: {json.dumps(one.arguments)} -> {json.dumps(one.expected)}" for one in case.checks]
    return PROMPT.format(
        text=case.contract.text,
        solve=case.contract.solve,
        arguments="\n".join(f"- {name}: {text}" for name, text in case.contract.arguments.items()),
        failing=programs["failing"],
        unsuccessful=programs["unsuccessful"],
        approach=case.unsuccessful_approach,
        checks="\n".join(checks),
    )


def code_of(answer: str) -> str:
    """The last Python code block of an answer; the whole answer where there is none."""
    blocks: list[str] = re.findall(r"```(?:python|py)?[ \t]*\n(.*?)```", answer, re.S)
    return blocks[-1] if blocks else answer


def judged(name: str, answer: str, *, held_back: bool) -> tuple[bool | None, str]:
    """Judge a model's answer to a case: whether it passes, None where no verdict was reached, and why.

    Raises:
        InvalidValueError: there is no such case.
    """
    (chosen,) = choose([name])
    record = judge_candidate(
        load_mechanism(chosen.folder),
        *chosen.variants[0],
        code_of(answer).encode("utf-8", "replace"),
        members=members_folder(),
        held_back=held_back,
    )
    said = "; ".join(f"{part.name}: {part.passed} of {part.asked}" for part in record.parts)
    return None if record.verdict == "could not tell" else record.verdict == "passes", said


def repair_task(names: Sequence[str], *, held_back: bool = False) -> Any:
    """Make the Inspect task over some cases.

    Args:
        names: ids, slugs or families.
        held_back: judge on held-back checks and unseen variants too; the members have to be here.

    Raises:
        InvalidValueError: Inspect is not installed, or a name is unknown.
    """
    try:
        inspect: Any = importlib.import_module("inspect_ai")
        dataset: Any = importlib.import_module("inspect_ai.dataset")
        scorers: Any = importlib.import_module("inspect_ai.scorer")
        solvers: Any = importlib.import_module("inspect_ai.solver")
    except ImportError:
        raise InvalidValueError(
            "Expected inspect_ai to make a task, got none: it is not installed. Install shardproof[inspect]."
        ) from None
    samples = [
        dataset.Sample(
            id=plan.content.id, input=prompt(plan.content), target="passes", metadata={"group": plan.content.group}
        )
        for plan in plans(choose(names), None)
    ]

    @scorers.scorer(metrics=[scorers.accuracy(), scorers.stderr()])  # type: ignore[untyped-decorator]
    def judge() -> Any:
        async def score(state: Any, target: Any) -> Any:
            passes, said = await asyncio.to_thread(
                judged, str(state.sample_id), state.output.completion, held_back=held_back
            )
            value = scorers.NOANSWER if passes is None else scorers.CORRECT if passes else scorers.INCORRECT
            return scorers.Score(value=value, answer=code_of(state.output.completion), explanation=said)

        return score

    return inspect.Task(
        dataset=dataset.MemoryDataset(samples, name="failure_map"), solver=solvers.generate(), scorer=judge()
    )
