"""Each draw has a process of its own: copies of a process draw different noise, and what goes wrong is one error."""

from __future__ import annotations

import errno
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from streamproc.errors import NoiseUnavailable
from streamproc.privacy.types import Period
from streamproc.storage import noise_client, noise_server
from streamproc.storage.entropy import SystemEntropy, shared_process_entropy
from streamproc.storage.noise_client import NoiseProcess
from tests.storage.copied_process import can_clone

ROOT = Path(__file__).parent.parent.parent

only_where_copied = pytest.mark.skipif(
    os.geteuid() != 0 or not can_clone(), reason="only root can copy a process into a PID namespace of its own"
)

COPIES = """
import os, socket
import numpy as np
from tests.storage.copied_process import in_copy, in_process_1

def show(draw):
    print(*draw(np.zeros(6, dtype=np.int64), 1e6), flush=True)
"""


def printed(script: str, *flags: str) -> list[str]:
    """The lines that a fresh interpreter prints."""
    command = [sys.executable, *flags, "-c", script]
    # A copy has one thread; NumPy would wait for others that it started in the original.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


SERVED = """
import signal
from streamproc.storage import noise_client, noise_server
from tests.storage.copied_process import clone

def start_copy_of_the_program():
    \"""Serve draws from a copy of this process, whose id is 1 too.\"""
    ours, theirs = socket.socketpair()
    if clone() == 0:
        ours.close()
        noise_server.serve(theirs.fileno())
        os._exit(0)
    theirs.close()
    noise_server.receive(ours, len(noise_server.READY))
    noise_client._program._control, noise_client._program._process = ours, None
"""


@only_where_copied
def test_copies_of_a_synthesizer_and_of_its_program_that_keep_their_pids_draw_different_noise() -> None:
    """Six integers of standard deviation 10^6: two independent draws are equal with a chance below 10^-36.

    Each copy of the synthesizer has a program of its own. The programs are copies of one process that has loaded OpenDP.
    """
    script = """
from streamproc.storage.entropy import SystemEntropy

def resumed():
    start_copy_of_the_program()
    show(SystemEntropy().draw("r", 1).gaussian)

def snapshot():
    noise_server.prepare()
    resumed()
    in_copy(resumed)
    in_copy(resumed)

in_process_1(snapshot)
"""
    drawn = printed(COPIES + SERVED + script)
    assert len(drawn) == len(set(drawn)) == 3


DRAWN_AT_EACH_FORK = """
def draw(exact, sigma):
    return noise_server.gaussian_measurement(sigma)(exact.tolist())

def fork():
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    in_copy(lambda: show(draw))
    in_copy(lambda: show(draw))
    return clone()

def snapshot():
    os.fork = fork
    start_copy_of_the_program()
    for _ in range(2):
        show(noise_client.NoiseProcess().gaussian)

in_process_1(snapshot)
"""
"""At each of two connections, two copies of the program draw just where it starts a process; then that process draws.

All of them are process 1, so OpenSSL notices no `fork`: they repeat each other if the program has a generator.
"""


@only_where_copied
def test_the_program_has_no_generator_whenever_it_starts_a_process() -> None:
    drawn = printed(COPIES + SERVED + DRAWN_AT_EACH_FORK)
    assert len(drawn) == len(set(drawn)) == 6


@only_where_copied
@pytest.mark.parametrize("function", ["prepare", "_start"])
def test_a_program_that_has_drawn_is_noticed(function: str) -> None:
    """The test above can fail: here the program draws once it is prepared, or whenever it is given a connection."""
    draws = f"""
original = noise_server.{function}

def {function}(*arguments):
    noise_server.gaussian_measurement(1.0)([0])
    original(*arguments)

noise_server.{function} = {function}
"""
    drawn = printed(COPIES + SERVED + draws + DRAWN_AT_EACH_FORK)
    assert [len(set(drawn[place : place + 3])) for place in (0, 3)] == [1, 1]


@only_where_copied
def test_such_copies_repeat_a_generator_that_was_seeded_before() -> None:
    """Such tests can fail: this is what OpenDP does when a process that has drawn is copied."""
    script = """
from streamproc.storage.noise_server import gaussian_measurement

def snapshot():
    draw = lambda exact, sigma: gaussian_measurement(sigma)(exact.tolist())
    draw(np.zeros(1, dtype=np.int64), 1e6)
    in_copy(lambda: show(draw))
    in_copy(lambda: show(draw))

in_process_1(snapshot)
"""
    first, second = printed(COPIES + script)
    assert first == second


def drawn_by(process: NoiseProcess, count: int = 6) -> list[int]:
    drawn: list[int] = process.gaussian(np.zeros(count, dtype=np.int64), 1e6).tolist()
    return drawn


def test_a_draw_keeps_its_process_and_another_draw_has_another(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[NoiseProcess] = []

    class Counted(NoiseProcess):
        def __init__(self) -> None:
            started.append(self)
            super().__init__()

    monkeypatch.setattr("streamproc.storage.entropy.NoiseProcess", Counted)
    zeros = np.zeros(3, dtype=np.int64)
    one, other = (SystemEntropy().draw("r", Period(1)) for _ in range(2))
    assert not started
    assert one.gaussian(zeros, 1e6).tolist() != one.gaussian(zeros, 1e6).tolist()
    assert len(started) == 1
    other.gaussian(zeros, 2.0)
    assert len(started) == 2
    with shared_process_entropy() as shared:
        for release in ("r", "s"):
            shared.draw(release, Period(1)).gaussian(zeros, 2.0)
    assert len(started) == 3


def test_nothing_needs_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamproc.storage.entropy.NoiseProcess", None)
    assert SystemEntropy().draw("r", Period(1)).gaussian(np.zeros(0, dtype=np.int64), 2.0).tolist() == []


def children_of(process: int) -> list[int]:
    """Every process below this one, by its id."""
    found = []
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *children_of(int(child))]
    return found


def program() -> int:
    """The id of the program that starts draws for this process."""
    assert noise_client._program._process is not None
    return noise_client._program._process.pid


def until(true: object) -> bool:
    """Wait for another process."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if callable(true) and true():
            return True
        time.sleep(0.01)
    return False


linux = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks at processes in /proc")


@linux
def test_a_process_ends_with_its_draw() -> None:
    noise_client._program.end()
    draw = SystemEntropy().draw("r", Period(1))
    draw.gaussian(np.zeros(3, dtype=np.int64), 2.0)
    assert len(children_of(program())) == 1
    del draw
    gc.collect()
    assert until(lambda: not children_of(program()))


@linux
def test_a_killed_process_is_an_error_that_tells_nothing_of_the_draw() -> None:
    noise_client._program.end()
    process = NoiseProcess()
    drawn_by(process)
    [child] = children_of(program())
    os.kill(child, signal.SIGKILL)
    with pytest.raises(NoiseUnavailable, match="ended before it answered") as caught:
        drawn_by(process)
    assert caught.value.exit_code == 1
    assert caught.value.__suppress_context__
    assert len(drawn_by(NoiseProcess())) == 6


@linux
def test_the_program_is_started_again_when_it_was_killed() -> None:
    drawn_by(NoiseProcess())
    before = program()
    os.kill(before, signal.SIGKILL)
    assert noise_client._program._process is not None
    noise_client._program._process.wait()
    assert len(drawn_by(NoiseProcess())) == 6
    assert program() != before


@linux
def test_signals_that_ask_to_end_do_not_reach_a_draw() -> None:
    """Ctrl-C in a terminal and a service manager's SIGTERM are for the process that draws; its helpers end with it."""
    process = NoiseProcess()
    drawn_by(process)
    assert os.getpgid(program()) != os.getpgid(0)
    for asked in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        for each in (program(), *children_of(program())):
            os.kill(each, asked)
    assert len(drawn_by(process)) == 6


@linux
def test_the_program_inherits_its_control_socket_and_nothing_else(tmp_path: Path) -> None:
    drawn_by(NoiseProcess())
    noise_client._program.end()
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)
        process = NoiseProcess()
        drawn_by(process)
        for each in (program(), *children_of(program())):
            held = [os.readlink(f"/proc/{each}/fd/{name}") for name in os.listdir(f"/proc/{each}/fd")]
            assert sorted(kind.split(":")[0] for kind in held) == ["/dev/null", "/dev/null", "/dev/null", "socket"]
            assert b"secret" not in Path(f"/proc/{each}/cmdline").read_bytes()


@linux
def test_nothing_stays_when_the_process_that_draws_is_killed() -> None:
    script = "\n".join(
        [
            "import numpy as np, sys, time",
            "from streamproc.storage import noise_client",
            "process = noise_client.NoiseProcess()",
            "process.gaussian(np.zeros(3, dtype=np.int64), 2.0)",
            "print(noise_client._program._process.pid, flush=True)",
            "time.sleep(600)",
        ]
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        started = int(process.stdout.readline())
        below = [started, *children_of(started)]
        assert len(below) == 2
        process.kill()
    assert until(lambda: not any(Path(f"/proc/{each}").exists() for each in below))


def test_threads_draw_at_the_same_time() -> None:
    drawn: list[list[int]] = []
    threads = [threading.Thread(target=lambda: drawn.append(drawn_by(NoiseProcess()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({tuple(each) for each in drawn}) == 8


def test_a_program_that_cannot_start_is_one_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    noise_client._program.end()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    with pytest.raises(NoiseUnavailable, match="cannot be started: No such file"):
        NoiseProcess()
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(NoiseUnavailable, match="did not start. Check what"):
        NoiseProcess()
    monkeypatch.undo()
    assert len(drawn_by(NoiseProcess())) == 6


def test_a_process_that_does_not_answer_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise_client, "DRAW_TIMEOUT_S", 0.05)
    process = NoiseProcess()
    os.kill(program(), signal.SIGSTOP)
    try:
        with pytest.raises(NoiseUnavailable, match=r"did not answer within 0.05 seconds"):
            drawn_by(NoiseProcess())
    finally:
        os.kill(program(), signal.SIGCONT)
    process.close()


def test_a_limit_on_processes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def limited() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    process = NoiseProcess()
    ours, theirs = socket.socketpair()
    with theirs:
        monkeypatch.setattr(os, "fork", limited)
        noise_server._start(ours, theirs)
    monkeypatch.setattr(process, "_connection", ours)
    with ours, pytest.raises(NoiseUnavailable, match="cannot be started: Resource temporarily unavailable"):
        drawn_by(process)


@pytest.mark.parametrize("flags", [(), ("-I",), ("-P",), ("-B",)])
def test_it_starts_however_python_was_started(flags: tuple[str, ...]) -> None:
    script = "import numpy as np\nfrom streamproc.storage.noise_client import NoiseProcess\n"
    assert printed(script + "print(NoiseProcess().gaussian(np.zeros(3, dtype=np.int64), 2.0).size)", *flags) == ["3"]


def test_a_draw_without_memory_fails_before_it_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise_server, "MEMORY", 2**62)
    monkeypatch.setattr(noise_server, "gaussian_measurement", lambda sigma: pytest.fail("drawn"))
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(MemoryError):
        ours.sendall(noise_server.REQUEST.pack(2.0, 1) + bytes(8))
        noise_server.answer(theirs)


@linux
def test_the_memory_that_a_draw_reserves_is_what_it_needs() -> None:
    """Measured between two sizes, so that what the libraries need once is left out."""
    script = """
import socket
from streamproc.storage import noise_server

def most_held():
    [line] = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024

def drawn(count):
    ours, theirs = socket.socketpair()
    ours.sendall(noise_server.REQUEST.pack(1e3, count) + count * (10**9).to_bytes(8, "little"))
    ours.shutdown(socket.SHUT_WR)
    noise_server.answer(theirs)
    return most_held()

noise_server.MEMORY, reserved, noise_server.MEMORY_PER_INTEGER = 0, noise_server.MEMORY_PER_INTEGER, 0
small, large = drawn(2_000), drawn(14_000)
print((large - small) / 12_000 / reserved)
"""
    [share] = map(float, printed(script))
    assert 0.3 < share <= 1
