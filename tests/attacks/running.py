"""Runs a program under limits, and judges how it ended."""
import os
import pathlib
import re
import resource
import signal
import subprocess
import tempfile
import threading
import time

MARK = "CLEAVE_ATTACK"
EXITS = {0, 1, 2, 3}
OF_A_SANITIZER = re.compile(rb"AddressSanitizer|LeakSanitizer|UndefinedBehaviorSanitizer|runtime error:")
OF_THE_STANDARD_LIBRARY = re.compile(rb"std::|max_size|basic_string|_M_|bad_alloc|bad_variant|bad_optional|\bstoi\b|\bstod\b")


class Run:
    """What a program did: its exit status (negative: the signal), what it wrote, its time and its memory."""

    def __init__(self, status, out, err, seconds, mebibytes):
        self.status, self.out, self.err, self.seconds, self.mebibytes = status, out, err, seconds, mebibytes


def run(words, limit_s=60.0, kill_after_s=None, signal_number=signal.SIGKILL, mark=""):
    """Runs a program until it ends. A signal comes after `kill_after_s`; SIGKILL after `limit_s`."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        begin = time.monotonic()
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=dict(os.environ, **{MARK: mark}))
        timers = [threading.Timer(limit_s, os.kill, [child.pid, signal.SIGKILL])]
        if kill_after_s is not None:
            timers.append(threading.Timer(kill_after_s, os.kill, [child.pid, signal_number]))
        for timer in timers:
            timer.start()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # its number stays its own until no timer can send to it
        for timer in timers:
            timer.cancel()
            timer.join()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        return Run(child.returncode, out.read(), err.read(), time.monotonic() - begin, used.ru_maxrss / 1024)


def find_flaw(ran, seconds, mebibytes):
    """Returns what is wrong with how the tool ended on input that may be anything, or "" if nothing is."""
    if OF_A_SANITIZER.search(ran.err):
        return "report of a sanitizer"
    if ran.seconds > seconds:
        return "more than %g s" % seconds
    if ran.status not in EXITS:
        return "signal %d" % -ran.status if ran.status < 0 else "exit status %d" % ran.status
    if mebibytes and ran.mebibytes > mebibytes:
        return "more than %d MiB" % mebibytes
    if ran.status in (2, 3) and not ran.err.startswith(b"cleave: "):
        return "refused without a reason"
    if OF_THE_STANDARD_LIBRARY.search(ran.err):
        return "message of the standard library"
    try:
        said = ran.err.decode()
    except UnicodeDecodeError:
        return "a message that is not UTF-8"
    if any(ord(c) < 32 and c != "\n" or ord(c) == 127 for c in said):
        return "control characters in a message"
    return ""


def marked_processes(mark):
    """Returns the processes that live and were started, by whomever, from a run with this mark."""
    wanted, found = ("%s=%s" % (MARK, mark)).encode(), []
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0") and b"State:\tZ" not in (folder / "status").read_bytes():
                found.append(int(folder.name))
        except OSError:
            pass  # it has ended, or is another user's
    return found


def files_in(folder):
    """Returns the content of every file below a folder, by its path."""
    folder = pathlib.Path(folder)
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def without_core_dumps():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Table:
    """Counts by class, printed as Markdown."""

    def __init__(self, *columns):
        self.columns, self.rows = columns, {}

    def add(self, row, **counts):
        of_row = self.rows.setdefault(row, dict.fromkeys(self.columns[1:], 0))
        for column, count in counts.items():
            of_row[column] += count

    def total(self, column):
        return sum(counts[column] for counts in self.rows.values())

    def print(self):
        print("| %s |" % " | ".join(self.columns))
        print("|%s" % ("---|" * len(self.columns)))
        for row, counts in self.rows.items():
            print("| %s | %s |" % (row, " | ".join(str(counts[c]) for c in self.columns[1:])))
        if len(self.rows) > 1:
            print("| sum | %s |" % " | ".join(str(self.total(c)) for c in self.columns[1:]))
