# SPDX-License-Identifier: MIT
"""How piper.py and alpa.py record the plans of other planners: their options, their sources, and one JSON object a line."""
import argparse
import json
import pathlib
import subprocess
import tempfile

WORKLOADS = pathlib.Path(__file__).parents[1] / "data" / "piper"


def record(description, source, commit, settings, planner_of):
    """Writes the plan for each setting (workload, memory in GiB, devices) to the file that the command line names.

    `planner_of(repository)` returns a function of a setting that returns the plan, as a dict. `repository` is a checkout of
    `commit` of `source`, or the folder that the command line gives.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--repository")
    parser.add_argument("settings", nargs="*", metavar="NAME MEMORY DEVICES")
    a = parser.parse_intermixed_args()
    settings = asked(parser, a.settings) or settings
    with tempfile.TemporaryDirectory() as folder:
        repository = pathlib.Path(a.repository or folder)
        if not a.repository:
            subprocess.run(["git", "clone", "-q", source, folder], check=True)
            subprocess.run(["git", "-C", folder, "checkout", "-q", commit], check=True)
        plan = planner_of(repository)
        with open(a.out, "w") as out:
            for name, memory, devices in settings:
                row = {"workload": name, "memory_gib": memory, "devices": devices, **plan(name, memory, devices)}
                print(json.dumps(row), file=out, flush=True)
                print(f"{name}, {memory} GiB, {devices} devices: {len(row['stages'])} stages, {row['seconds']:.1f} s", flush=True)


def asked(parser, words):
    """Returns the settings that the command line gives."""
    known = sorted(path.stem for path in WORKLOADS.glob("*.json"))
    settings = []
    if len(words) % 3:
        parser.error("give NAME MEMORY DEVICES for each plan, as in bert32a100 8 32")
    for name, memory, devices in zip(*[iter(words)] * 3):
        if name not in known:
            parser.error(f"unknown workload '{name}'; known: {', '.join(known)}")
        try:
            settings.append((name, float(memory), int(devices)))
        except ValueError:
            parser.error(f"expected GiB and a number of devices after {name}; found '{memory}' and '{devices}'")
        if settings[-1][1] <= 0 or settings[-1][2] < 1:
            parser.error(f"memory and devices of {name} must be positive; found '{memory}' and '{devices}'")
    return settings
