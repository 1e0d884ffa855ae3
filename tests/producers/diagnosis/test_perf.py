"""Samples of running threads by the kernel: of real programs, and of what it wrote byte by byte."""

from __future__ import annotations

import os
import resource
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from laggard.producers.diagnosis import perf
from laggard.producers.diagnosis.contract import ProfilerError, Sample
from laggard.producers.diagnosis.events import ANY, CONTEXT_KERNEL, CONTEXT_USER, Events, Found, parse_records
from laggard.producers.system.kernel import cpu_clock
from tests.misbehaving.programs import compiled, misbehaving
from tests.producers.diagnosis.profiled import assert_found, held, samples_of
from tests.producers.diagnosis.rights import SAMPLES, SAMPLES_ALL

OTHERS_UID = 65534
"""The user `nobody`."""


def _process_cpu_s(pid):
    return time.clock_gettime(cpu_clock(pid))


def _line(process):
    """The next line that it says."""
    assert process.stdout
    return process.stdout.readline()


@SAMPLES_ALL
@pytest.mark.slow
@pytest.mark.parametrize("cores", [True, False], ids=["cores", "threads"])
def test_the_busy_thread_of_a_native_program_is_first_and_in_its_function(cores):
    before = held()
    with misbehaving([compiled("burning")]) as program:
        assert perf.available(program.pid) == ""
        begin = time.time()
        profiler = perf.Perf(program.pid, cores=cores)
        samples = samples_of(profiler, running=50, tid=program.tid)
        end = time.time()
        threads = {int(task.name) for task in Path(f"/proc/{program.pid}/task").iterdir()}
    assert_found(samples, program, callers=("grinder",))
    assert profiler.notes == []
    found = {sample.locations[0] for sample in samples if sample.locations[0].function == program.function}
    assert {location.module for location in found} == {str(compiled("burning"))}
    assert {sample.tid for sample in samples} <= threads  # of no other process
    assert all(begin <= sample.ts <= end for sample in samples)
    assert held() <= before  # what an earlier test left may go meanwhile


@SAMPLES_ALL
@pytest.mark.slow
@pytest.mark.parametrize("cores", [True, False], ids=["cores", "threads"])
def test_how_often_a_thread_is_met_is_its_share_of_cpu_time(cores):
    """Two threads take turns of 3 to 1; what sleeps is not met."""
    program = """
import threading, time
def use(seconds):
    while True:
        end = time.thread_time() + seconds
        while time.thread_time() < end:
            pass
        time.sleep(0.01)
for seconds in (0.03, 0.01):
    thread = threading.Thread(target=use, args=(seconds,))
    thread.start()
    print(thread.native_id, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        try:
            tids = [int(_line(process)) for _ in range(2)]
            profiler = perf.Perf(process.pid, cores=cores)
            profiler.start()
            before = [_cpu_s(process.pid, tid) for tid in tids]
            used = [0.0, 0.0]
            counts: Counter[int] = Counter()
            while sum(used) < 1.5:
                time.sleep(0.1)
                counts.update(sample.tid for sample in profiler.take())
                used = [_cpu_s(process.pid, tid) - then for tid, then in zip(tids, before, strict=True)]
            profiler.stop()
        finally:
            process.kill()
    assert set(counts) <= {*tids, process.pid}
    # On a busy machine some samples are lost, of both alike.
    assert [counts[tid] / counts.total() for tid in tids] == pytest.approx([each / sum(used) for each in used], abs=0.1)
    assert 0.5 * sum(used) < counts.total() / perf.FREQUENCY_HZ < 1.25 * sum(used) + 0.15


def _cpu_s(pid, tid):
    return int(Path(f"/proc/{pid}/task/{tid}/schedstat").read_text().split()[0]) / 1e9


@SAMPLES_ALL
@pytest.mark.slow
def test_time_in_the_kernel_has_its_functions():
    with (
        Path("/dev/zero").open("rb") as source,
        subprocess.Popen(["dd", "of=/dev/null", "bs=1M"], stdin=source, stderr=subprocess.DEVNULL) as process,
    ):
        try:
            samples = samples_of(perf.attach(process.pid), running=50, tid=process.pid)
        finally:
            process.kill()
    innermost = Counter(sample.locations[0].module for sample in samples)
    assert innermost["[kernel]"] > 0.9 * len(samples)
    in_kernel = next(sample for sample in samples if sample.locations[0].module == "[kernel]")
    assert all(location.function for location in in_kernel.locations if location.module == "[kernel]")
    assert any("libc" in location.module for location in in_kernel.locations)


@pytest.mark.slow
@SAMPLES
def test_threads_that_come_are_met():
    stop = threading.Event()

    def burn():
        while not stop.is_set():
            pass

    profiler = perf.attach(os.getpid())
    profiler.start()
    thread = threading.Thread(target=burn)
    thread.start()
    try:
        until = time.monotonic() + 60
        while thread.native_id not in {sample.tid for sample in profiler.take()}:
            assert time.monotonic() < until
            time.sleep(0.2)
    finally:
        stop.set()
        thread.join()
        profiler.stop()


def taken(profiler, least):
    """So many samples at least, however long that takes."""
    samples: list[Sample] = []
    while len(samples) < least:
        time.sleep(0.1)
        samples += profiler.take()
    return samples


@SAMPLES
@pytest.mark.slow
def test_of_too_many_threads_those_that_use_most_are_met(monkeypatch):
    monkeypatch.setattr(perf, "THREADS", 3)
    with misbehaving([compiled("burning")]) as program:
        profiler = perf.attach(program.pid)
        profiler.start()
        samples = taken(profiler, 10)
        before = held()
        samples = taken(profiler, 20)
        assert held() <= before
        profiler.stop()
    assert_found(samples, program)


SHORT_LIVES = """
import threading, time
def burn():
    end = time.thread_time() + 0.02
    while time.thread_time() < end:
        pass
print(flush=True)
while True:
    thread = threading.Thread(target=burn)
    thread.start()
    thread.join()
"""


@SAMPLES_ALL
@pytest.mark.slow
def test_cpu_time_of_unsampled_threads_is_noted():
    with subprocess.Popen([sys.executable, "-c", SHORT_LIVES], stdout=subprocess.PIPE, text=True) as process:
        try:
            _line(process)
            profiler = perf.Perf(process.pid, cores=False)
            profiler.start()
            until = time.monotonic() + 120
            while not profiler.notes and time.monotonic() < until:
                time.sleep(1)
                profiler.take()
            profiler.stop()
        finally:
            process.kill()
    (note,) = profiler.notes
    assert "% of the CPU time was in threads too short-lived or too many to be sampled" in note


@SAMPLES_ALL
@pytest.mark.slow
def test_where_cores_are_asked_threads_are_met_however_short_they_live():
    with subprocess.Popen([sys.executable, "-c", SHORT_LIVES], stdout=subprocess.PIPE, text=True) as process:
        try:
            _line(process)
            profiler = perf.Perf(process.pid)
            profiler.start()
            samples: list[Sample] = []
            before, used_s = _process_cpu_s(process.pid), 0.0
            while used_s < 1.2:
                time.sleep(0.1)
                samples += profiler.take()
                used_s = _process_cpu_s(process.pid) - before
            samples += profiler.stop()
        finally:
            process.kill()
    assert len({sample.tid for sample in samples}) > 20
    # On a machine so full that laggard came too late it is said that samples were lost.
    if profiler.notes:
        assert "samples were lost" in profiler.notes[0]
        assert len(samples) < 1.2 * used_s * perf.FREQUENCY_HZ
    else:
        assert len(samples) == pytest.approx(used_s * perf.FREQUENCY_HZ, rel=0.2)


@SAMPLES_ALL
def test_an_idle_core_says_nothing():
    """Else its samples would take the room of the process's."""
    cpu = min(os.sched_getaffinity(0))
    events = Events(ANY, cpu=cpu, period_ns=1_000_000, kernel=True)
    try:
        time.sleep(0.3)
        found = events.take()
    finally:
        events.close()
    assert 0 not in {one.tid for one in found}


@pytest.mark.slow
def test_of_a_process_that_is_gone_no_core_is_asked():
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert not perf.Perf(process.pid)._ask_cores()


def test_many_running_threads_are_asked_more_rarely():
    profiler = perf.Perf(os.getpid())
    profiler._adapt(10 * perf.FREQUENCY_HZ, 10**9)  # ten cores busy for a second
    assert profiler._period_ns == pytest.approx(1e9 * 10 / perf.RATE_HZ, rel=0.02)
    profiler._adapt(10, 10**9)
    assert profiler._period_ns == round(1e9 / perf.FREQUENCY_HZ)


@SAMPLES
@pytest.mark.slow
def test_what_is_not_taken_in_time_is_counted():
    stop = threading.Event()
    thread = threading.Thread(target=lambda: [None for _ in iter(stop.is_set, True)])
    thread.start()
    assert thread.native_id
    events = Events(thread.native_id, period_ns=100_000, kernel=False)
    try:
        until = time.monotonic() + 240
        while not events.lost:  # the kernel says what it had to drop when there is room again
            assert time.monotonic() < until
            time.sleep(1)
            assert events.take()
            time.sleep(0.1)
            events.take()
    finally:
        stop.set()
        thread.join()
        events.close()


@SAMPLES
@pytest.mark.slow
def test_a_process_that_ends_leaves_what_was_seen_of_it():
    with misbehaving([compiled("burning")]) as program:
        profiler = perf.attach(program.pid)
        profiler.start()
        before = _process_cpu_s(program.pid)
        while _process_cpu_s(program.pid) < before + 0.3:
            time.sleep(0.05)
        program.process.kill()
        program.process.wait()
        samples = profiler.take()
        assert profiler.take() == []
        assert profiler.stop() == []
    assert program.tid in {sample.tid for sample in samples}


@SAMPLES
@pytest.mark.slow
def test_started_again_it_goes_on_and_stopped_it_tells_nothing():
    with misbehaving([compiled("burning")]) as program:
        profiler = perf.attach(program.pid)
        assert profiler.take() == ()
        for _ in range(2):
            assert_found(samples_of(profiler, running=20, tid=program.tid), program)
        assert profiler.stop() == []
        assert profiler.take() == ()


@SAMPLES
@pytest.mark.slow
def test_no_process_is_a_clear_error():
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert perf.available(process.pid) == f"perf: process {process.pid} has ended"
    with pytest.raises(ProfilerError, match="has ended"):
        perf.attach(process.pid).start()


@SAMPLES
@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can try it as somebody else")
def test_without_rights_it_says_which_are_missing_and_what_to_do():
    """User `nobody` may not sample root's process; its own outside of the kernel, or none on a stricter machine."""
    program = """
import os, subprocess, time
from laggard.producers.diagnosis import perf
os.setgid({uid}); os.setuid({uid})
print(perf.available({pid}))
with subprocess.Popen(["sh", "-c", "while :; do :; done"]) as own:
    try:
        reason = perf.available(own.pid)
        print(reason)
        profiler = perf.attach(own.pid)
        samples = []
        if not reason:
            profiler.start()
            while not any(location.module.endswith("sh") for sample in samples for location in sample.locations):
                time.sleep(0.1)
                samples += profiler.take()
        print(profiler.notes)
        print({{location.module for sample in samples for location in sample.locations}})
    finally:
        own.kill()
"""
    with misbehaving([compiled("burning")], busy=False) as root:
        text = program.format(uid=OTHERS_UID, pid=root.pid)
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=200)
    others, own, notes, modules = done.stdout.splitlines()
    assert others.startswith(f"perf: no permission to sample process {root.pid}: kernel.perf_event_paranoid is ")
    assert "run laggard as root or with CAP_PERFMON" in others
    assert "[kernel]" not in modules
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) == 2:
        assert own == ""
        assert "kernel functions are missing: kernel.perf_event_paranoid is 2" in notes
        assert "sh'" in modules
    elif int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) > 2:
        assert "no permission to sample" in own


@SAMPLES_ALL
@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="takes a capability away")
def test_where_the_kernels_addresses_are_hidden_it_says_why_its_functions_have_no_names():
    with (
        Path("/dev/zero").open("rb") as source,
        subprocess.Popen(["dd", "of=/dev/null", "bs=1M"], stdin=source, stderr=subprocess.DEVNULL) as process,
    ):
        try:
            program = f"""
import time
from laggard.producers.diagnosis import perf
profiler = perf.attach({process.pid})
profiler.start()
samples = []
while len(samples) < 10:
    time.sleep(0.1)
    samples += profiler.take()
print(profiler.notes)
print({{(at.module, at.function) for sample in samples for at in sample.locations if at.module == "[kernel]"}})
"""
            command = ["setpriv", "--bounding-set=-syslog", sys.executable, "-c", program]
            notes, kernel = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        finally:
            process.kill()
    if int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) > 1:
        assert notes == "['perf: kernel functions have no names: that needs CAP_SYSLOG']"
        assert kernel == "{('[kernel]', '')}"
    else:
        assert notes == "[]"


@SAMPLES_ALL
@pytest.mark.slow
def test_out_of_descriptors_it_samples_what_it_can_and_says_so():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with misbehaving([compiled("burning")]) as program:
        profiler = perf.Perf(program.pid, cores=False)
        lowest = os.dup(0)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 8, hard))
        try:
            profiler.start()
            (note,) = profiler.notes
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            profiler.stop()
    assert "too many open files; raise the limit" in note


def test_records_of_the_kernel_are_parsed():
    chain = (CONTEXT_KERNEL, 0xFFFFFFFF81000001, 0xFFFFFFFF81000002, CONTEXT_USER, 0x1000, 0x2000)
    sample = struct.pack("=IIQQ6Q", 7, 8, 123456789, len(chain), *chain)
    text = (
        struct.pack("=IHH", 9, 1, 8 + len(sample))
        + sample
        + struct.pack("=IHHQQ", 2, 0, 24, 1, 17)  # PERF_RECORD_LOST
        + struct.pack("=IHHQ", 13, 0, 16, 0)  # another kind
        + struct.pack("=IHHIIQQQ", 9, 2, 40, 7, 9, 5, 1, (1 << 64) - 2048)  # in a guest of this machine
        + struct.pack("=IHHIIQQQ", 9, 2, 40, 7, (1 << 32) - 1, 6, 1, 0x3000)  # of a thread that is ending
    )
    found, lost = parse_records(text)
    assert found == [
        Found(123456789, 8, (0xFFFFFFFF81000001, 0xFFFFFFFF81000002), (0x1000, 0x2000)),
        Found(5, 9, (), ()),
    ]
    assert lost == 17
