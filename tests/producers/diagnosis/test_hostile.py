"""A diagnosis of programs that would harm who looks at them: it ends in time, and says what it could not tell."""

from __future__ import annotations

import resource
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from laggard.producers.diagnosis.aside import Aside
from laggard.producers.diagnosis.bounds import Budget, Limits
from laggard.producers.diagnosis.helper import ANSWER_CPU_S
from laggard.producers.diagnosis.session import Session
from laggard.producers.diagnosis.symbols import symbolizer
from laggard.producers.diagnosis.target import find
from tests.producers.diagnosis.rights import SAMPLES
from tests.producers.diagnosis.test_helper import EXPLODING
from tests.programs import path_of

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = """
#include <stdio.h>
void bad(volatile long *) __asm__("%s");
void bad(volatile long *rounds) { for (;;) ++*rounds; }
int main(void) { volatile long rounds = 0; puts("ready"); fflush(stdout); bad(&rounds); }
"""


@SAMPLES
@pytest.mark.slow
def test_a_program_that_is_busy_in_a_function_of_an_exploding_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Aside.ask, "__defaults__", (60.0,))
    (tmp_path / "hostile.c").write_text(HOSTILE % EXPLODING)
    subprocess.run([path_of("cc"), "-o", tmp_path / "hostile", tmp_path / "hostile.c"], check=True)
    symbolizer().helper()
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with subprocess.Popen([tmp_path / "hostile"], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout
            process.stdout.readline()
            limits = Limits(samples=10_000, duration_s=600.0)
            session = Session(
                find(process.pid),
                id="17",
                host="atlas",
                reason="asked",
                budget=Budget(1.0),
                limits=limits,
                methods=["perf"],
            )
            until, running = time.monotonic() + 240.0, 0
            while running < 20:
                assert time.monotonic() < until
                time.sleep(min(session.delay_s(), 1.0))
                session.sample()
                (phase,) = session.diagnosis("extended").phases
                stacks = [stack for thread in phase.threads for stack in thread.stacks if stack.state == "running"]
                running = sum(stack.samples for stack in stacks)
            session.close()
            diagnosis = session.diagnosis("closed")
        finally:
            process.kill()
    modules = {stack.locations[0].module for stack in stacks if stack.locations}
    assert any(module.endswith("/hostile") for module in modules)
    names = {stack.locations[0].function for stack in stacks if stack.locations}
    assert names & {"", EXPLODING}
    if EXPLODING not in names:
        assert any("have no names: reading them failed" in note for note in diagnosis.notes)
    assert diagnosis.sampler_cpu_s < 3 * ANSWER_CPU_S + 5.0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 100_000
