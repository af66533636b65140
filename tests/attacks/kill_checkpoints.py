#!/usr/bin/env python3
"""Kills a program at random moments while it writes checkpoints, and reads the newest one.

After each kill the newest checkpoint must be whole, and of the last step that the program said was written or a later one.
Every third time a file is damaged first: then an older whole checkpoint must be read, and the damage be reported.
"""
import argparse
import pathlib
import random
import re
import sys
import tempfile
import time

import running


def damage_checkpoint(folder, step, chance):
    """Damages a file of the checkpoint of this step, or puts a folder in its place; returns what was done."""
    manifest = next(folder.glob("checkpoint-*-step-%d.manifest" % step))
    file = chance.choice([manifest] + sorted(folder.glob("step-%d-rank-*.part" % step)))
    content, how = bytearray(file.read_bytes()), chance.randrange(5)
    if how == 0:
        bit = chance.randrange(8 * len(content))
        content[bit // 8] ^= 1 << bit % 8
        file.write_bytes(content)
        return "bit %d of %s flipped" % (bit, file.name)
    if how == 1:
        size = chance.randrange(len(content))
        file.write_bytes(content[:size])
        return "%s cut to %d bytes" % (file.name, size)
    if how == 2:
        file.write_bytes(content + b"\0" * chance.randrange(1, 9))
        return "%s with bytes behind it" % file.name
    file.unlink()
    if how == 3 or file != manifest:
        return "%s removed" % file.name
    file.mkdir()
    return "%s replaced by a folder" % file.name


def newest_whole(folder, damaged):
    """Returns the step of the manifest with the greatest number, of those that nobody damaged; 0 if there is none."""
    whole = [(int(number), int(step)) for file in folder.glob("checkpoint-*.manifest")
             for number, step in re.findall(r"checkpoint-(\d+)-step-(\d+)\.", file.name) if int(step) not in damaged]
    return max(whole, default=(0, 0))[1]


def read_newest(program, folder):
    """Returns the step that the library reads, the number of newer ones that it reports as damaged, and what it says."""
    ran = running.run([program, "check", str(folder)], limit_s=20)
    step, reported = map(int, ran.out.split()) if ran.status == 0 else (0, 0)
    return step, reported, ran.err.decode(errors="replace").strip()


def main():
    parser = argparse.ArgumentParser(prog="./dev attack checkpoints", description=__doc__)
    parser.add_argument("--tool", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=1000, help="number of kills (1000)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the moments (1)")
    parser.add_argument("folder", nargs="?", type=pathlib.Path, help="folder on the file system to try (that of the build)")
    args = parser.parse_args()
    running.without_core_dumps()
    program, chance = str(args.tool.parent / "write_checkpoints"), random.Random(args.seed)
    table = running.Table("killed while it wrote", "kills", "written", "unfinished files", "damaged", "flaws")
    with tempfile.TemporaryDirectory(prefix="cleave-attack-", dir=args.folder or args.tool.parents[1]) as name:
        folder, damaged, step = pathlib.Path(name), set(), 1
        begin = time.monotonic()
        first = running.run([program, "1", name], kill_after_s=1).out.split()
        seconds = (time.monotonic() - begin) / (len(first) + 1)  # of a checkpoint, here
        for number in range(args.count):
            step += 1000
            said = running.run([program, str(step), name], kill_after_s=chance.uniform(0, 4 * seconds)).out.split()
            unfinished = len(list(folder.glob("*.unfinished")))
            newest, _, complaint = read_newest(program, folder)
            flaws, expected = [], newest_whole(folder, damaged)
            if newest != expected or said and newest < int(said[-1]):
                flaws.append("step %s was written, %d is whole, %d is read %s" % (said and int(said[-1]), expected, newest, complaint))
            is_damaged = not flaws and number % 3 == 2 and newest > 0
            if is_damaged:
                damage = damage_checkpoint(folder, newest, chance)
                damaged.add(newest)
                expected = newest_whole(folder, damaged)
                older, reported, complaint = read_newest(program, folder)
                if older != expected or expected and not reported and "manifest removed" not in damage or not expected and not complaint:
                    flaws.append("%s: %d is whole, %d is read, %d are reported %s" % (damage, expected, older, reported, complaint))
            table.add("checkpoints", kills=1, written=len(said), damaged=is_damaged, flaws=len(flaws), **{"unfinished files": unfinished})
            for flaw in flaws:
                print("kill %d: %s" % (number, flaw), file=sys.stderr)
            if sys.stderr.isatty():
                print("\r%d of %d" % (number + 1, args.count), end="", file=sys.stderr)
    table.print()
    return 1 if table.total("flaws") else 0


if __name__ == "__main__":
    sys.exit(main())
