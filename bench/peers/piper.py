#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records the plans of Piper (Tarnawski et al., NeurIPS 2021) for its own workloads.

    ./dev bench peers piper OUT [--repository FOLDER] [NAME MEMORY DEVICES]...

Fetches github.com/msr-fiddle/piper into a temporary folder (or uses FOLDER), compiles its `algo.cpp` with another `main`,
and writes one JSON object a line to OUT, each with the plan for one workload, memory in GiB and number of devices: those
of its paper with at most 512 devices, or those that are given. bench/recorded/piper.jsonl was made so.
"""
import json
import subprocess
import sys

import plans

SOURCE = "https://github.com/msr-fiddle/piper"
COMMIT = "d7fc8cf91048f4b71dc2f9182fa14ebf720c016e"
BERT = [("bert32a100", m, k) for m in (1, 2, 8, 80) for k in (8, 32, 64, 128, 512)]
GNMT = [("gnmt", m, k) for k, m in ((2, 2.5), (2, 3.5), (4, 1.2), (4, 2.5), (8, .6), (8, 1.2), (8, 2.4), (16, .3),
                                    (16, .6), (16, 1.2), (32, .3), (32, .8), (64, .3))]
RESNET = [("resnet", m, k) for k, m in ((8, 4), (8, 8), (16, 1.5), (16, 4), (32, 1.5), (32, 4), (64, 1), (64, 4))]

MAIN = r"""
int main(int, char** argv) {
    json j;
    ifstream(argv[1]) >> j;
    Instance ins = j.get<Instance>();
    ins.maxMemoryPerDevice = atof(argv[2]) * (1 << 30);
    ins.maxDevices = atoi(argv[3]);
    ins.bandwidth = 25.0 * (1LL << 30);
    clock_t start = clock();
    Graph g(ins);
    Result r = g.runDP();
    json out = {{"seconds", (clock() - start) * 1.0 / CLOCKS_PER_SEC}, {"stages", json::array()}};
    if (!r.stages.empty()) out["period"] = g.getTPSForResult(r);
    g.renumberResultBack(r);
    for (auto const& s : r.stages) {
        json again = json::array();
        for (auto const& p : s.TMPCids) if (p.second == "activation recomp") again.push_back(p.first);
        sort(again.begin(), again.end());
        out["stages"].push_back({{"nodes", s.nodes}, {"width", s.dataParallelDegree},
                                 {"shards", s.tensorParallelDegree}, {"again", again}});
    }
    cout << out.dump() << endl;
}
"""
INCLUDES = ["algorithm", "cassert", "climits", "cmath", "numeric"]


def build(repository):
    source = (repository / "algo.cpp").read_text()
    (repository / "record.cpp").write_text(source[:source.index("int main (")] + MAIN)
    command = ["g++", "-O3", "-w", "-o", repository / "record", repository / "record.cpp"]
    subprocess.run(command + [f"-include{i}" for i in INCLUDES], check=True)


def planner_of(repository):
    build(repository)

    def plan(name, memory, devices):
        command = [repository / "record", repository / "inputs" / f"{name}.json", str(memory), str(devices)]
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if run.returncode:
            sys.exit(f"piper failed on {name} with {memory} GiB and {devices} devices")
        return json.loads(run.stdout)

    return plan


if __name__ == "__main__":
    plans.record(__doc__, SOURCE, COMMIT, BERT + GNMT + RESNET, planner_of)
